package client

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"sluice/rpc/xdr"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A READ call as RFC 5531 section 9 and RFC 1813 section 3.3.6 lay it out, written
// by hand.
func TestReadCall(t *testing.T) {
	s := Server{cred: unhex(t, "00000001 00000018 0000002a 00000001 68000000 00000000 00000000 00000000 00000000 00000000")}
	got := s.Read([]byte{1, 2, 3, 4, 5})
	want := unhex(t, "80000058"+ // the last fragment, 88 bytes
		"00000000 00000000 00000002 000186a3 00000003 00000006"+ // xid, CALL, version 2, NFS, 3, READ
		"00000001 00000018 0000002a 00000001 68000000 00000000 00000000 00000000 00000000 00000000"+ // credential, verifier
		"00000005 0102030405000000"+ // handle
		"0000000000000000 00000000") // offset, count
	if !bytes.Equal(got.Bytes, want) {
		t.Errorf("got  %x\nwant %x", got.Bytes, want)
	}
	if got.OffsetAt != len(want)-12 || got.Null {
		t.Errorf("offset at %d, null %v", got.OffsetAt, got.Null)
	}
}

func TestReplyError(t *testing.T) {
	const accepted = "00000001 00000000 00000000 00000000"
	for text, want := range map[string]string{
		accepted + "00000000 00000000":                 "",
		accepted + "00000000 00000046":                 "NFS3ERR_STALE",
		accepted + "00000000 00009999":                 "status 39321",
		accepted + "00000001":                          errUnavailable.Error(),
		accepted + "00000002 00000002 00000004":        errUnavailable.Error(),
		accepted + "00000005":                          "SYSTEM_ERR",
		"00000001 00000001 00000001 00000005":          "auth_stat 5",
		"00000001 00000001 00000000 00000002 00000002": "denied",
		"00000000 00000000":                            errNotReply.Error(),
		accepted + "00000000":                          errNotReply.Error(),
		"":                                             errNotReply.Error(),
		"00000001 00000000 00000000 00000004 00000000 00000000 00000000": "", // a verifier of 4 bytes
	} {
		r := xdr.NewReader(unhex(t, text))
		err := ReplyError(&r, false)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A server cannot make the client take more memory than MaxReply.
func TestReadRecord(t *testing.T) {
	rec, err := readRecord(bytes.NewReader(unhex(t, "00000002 aabb 00000000 80000001 cc")))
	if err != nil || !bytes.Equal(rec, []byte{0xaa, 0xbb, 0xcc}) {
		t.Errorf("%x, %v", rec, err)
	}
	for _, bad := range []string{"", "80", "80000002 aa", "ffffffff aa", "80010001 aa", "0000ffff" + strings.Repeat("00", 0xffff) + "00000002"} {
		if rec, err := readRecord(bytes.NewReader(unhex(t, bad))); err == nil {
			t.Errorf("%.20s: %d bytes", bad, len(rec))
		}
	}
}
