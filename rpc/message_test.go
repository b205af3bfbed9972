package rpc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"sluice/rpc/xdr"
)

// capturedCalls are what real clients sent; see the file.
func capturedCalls(t testing.TB) (calls [][]byte) {
	t.Helper()
	f, err := os.Open("testdata/calls.hex")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		_, digits, _ := strings.Cut(s.Text(), " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, b)
	}
	if len(calls) == 0 {
		t.Fatal("no calls in testdata/calls.hex")
	}
	return calls
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The layout of RFC 5531 section 9: xid, CALL, rpcvers, prog, vers, proc.
func TestParseHeader(t *testing.T) {
	rec := unhex(t, "0a0b0c0d 00000000 00000002 000186a3 00000003 00000006 deadbeef")
	h, rest, ok := parseHeader(rec)
	want := header{xid: 0x0a0b0c0d, rpcvers: 2, prog: 100003, vers: 3, proc: 6}
	if !ok || h != want || !bytes.Equal(rest, rec[24:]) {
		t.Errorf("%+v, rest % x, %v", h, rest, ok)
	}
	for n := range 24 {
		if _, _, ok := parseHeader(rec[:n]); ok {
			t.Errorf("a header of %d bytes", n)
		}
	}
	rec[7] = 1 // REPLY
	if _, _, ok := parseHeader(rec); ok {
		t.Error("a reply is taken for a call")
	}
}

// Replies byte for byte (RFC 5531 section 9, reply_body).
func TestReplyHeaders(t *testing.T) {
	const xid = 0x0a0b0c0d
	for name, row := range map[string]struct {
		got  []byte
		want string
	}{
		"SUCCESS":       {appendAccepted(nil, xid, 0), "0a0b0c0d 00000001 00000000 00000000 00000000 00000000"},
		"PROG_UNAVAIL":  {appendAccepted(nil, xid, 1), "0a0b0c0d 00000001 00000000 00000000 00000000 00000001"},
		"PROG_MISMATCH": {appendProgMismatch(nil, xid, 3, 4), "0a0b0c0d 00000001 00000000 00000000 00000000 00000002 00000003 00000004"},
		"RPC_MISMATCH":  {appendRPCMismatch(nil, xid), "0a0b0c0d 00000001 00000001 00000000 00000002 00000002"},
		"AUTH_BADCRED":  {appendAuthError(nil, xid, AuthBadCred), "0a0b0c0d 00000001 00000001 00000001 00000001"},
		"AUTH_BADVERF":  {appendAuthError(nil, xid, AuthBadVerf), "0a0b0c0d 00000001 00000001 00000001 00000003"},
	} {
		if want := unhex(t, row.want); !bytes.Equal(row.got, want) {
			t.Errorf("%s: % x, want % x", name, row.got, want)
		}
	}
	if len(appendAccepted(nil, 0, 0)) != acceptedLen {
		t.Error("acceptedLen is not the length of an accepted header")
	}
}

// echoProgram is a program whose procedure 1 returns its arguments.
func echoProgram() Program {
	echo := func(c *Call) Result {
		b := c.Args.Opaque(4000)
		if c.Args.Err() != nil {
			return GarbageArgs
		}
		c.Reply = xdr.AppendOpaque(c.Reply, b)
		return Done
	}
	return Program{Number: 100003, Name: "echo", UDP: true, Versions: []Version{
		{Number: 3, Procs: []Procedure{{Name: "NULL", Handle: Null}, {Name: "ECHO", Handle: echo, MaxReply: 4000}, {Name: "HOLE"}}},
	}}
}

// Whatever comes in, run answers with a well-formed reply under the call's xid,
// or not at all, and never touches what is in the batch before.
func FuzzCall(f *testing.F) {
	for _, rec := range capturedCalls(f) {
		f.Add(rec, false)
		f.Add(rec, true)
	}
	table := newTable([]Program{echoProgram(), Portmap(func() []Mapping { return nil })})
	f.Fuzz(func(t *testing.T, rec []byte, udp bool) {
		env := callEnv{table: table, counts: make(counters, len(table.names))}
		before := []byte("before")
		env.call.Reply, env.call.UDP = bytes.Clone(before), udp
		res, drop := env.run(rec)
		reply, found := bytes.CutPrefix(env.call.Reply, before)
		if !found {
			t.Fatal("the batch before the reply has changed")
		}
		if res != Done || drop != (len(rec) < minRecord) {
			t.Fatalf("result %d, drop %v", res, drop)
		}
		isCall := len(rec) >= minRecord && binary.BigEndian.Uint32(rec[4:]) == msgCall
		if !isCall {
			if len(reply) != 0 {
				t.Fatalf("an answer to what is no call: % x", reply)
			}
			return
		}
		checkReply(t, rec, reply)
	})
}

// checkReply checks the shape of a reply (RFC 5531 section 9).
func checkReply(t *testing.T, rec, reply []byte) {
	t.Helper()
	if len(reply) < 16 || len(reply)%4 != 0 || !bytes.Equal(reply[:4], rec[:4]) {
		t.Fatalf("reply % x", reply)
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(reply[4*i:]) }
	if word(1) != msgReply {
		t.Fatalf("message type %d", word(1))
	}
	switch word(2) {
	case replyDenied:
		if want := map[uint32]int{rejectRPCMismatch: 24, rejectAuthError: 20}[word(3)]; len(reply) != want {
			t.Fatalf("reject_stat %d in %d bytes", word(3), len(reply))
		}
	case replyAccepted:
		if len(reply) < acceptedLen || word(3) != 0 || word(4) != 0 || word(5) > acceptSystemErr {
			t.Fatalf("reply % x", reply)
		}
		if want := map[uint32]int{acceptProgUnavail: 24, acceptProgMismatch: 32, acceptProcUnavail: 24, acceptGarbageArgs: 24}[word(5)]; want != 0 && len(reply) != want {
			t.Fatalf("accept_stat %d in %d bytes", word(5), len(reply))
		}
	default:
		t.Fatalf("reply_stat %d", word(2))
	}
}
