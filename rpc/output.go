package rpc

import "golang.org/x/sys/unix"

// segment is a stretch of parked output: bytes of the parked buffer, then
// perhaps a payload.
type segment struct {
	end     int // end of the bytes in parked.buf
	payload Payload
}

// parked is what has not left yet, in order: what a full socket left behind, and
// what leaves in the background with all that comes after it.
type parked struct {
	buf   []byte
	sent  int // bytes of buf that have left
	segs  []segment
	first int // segments before this one have left
	bytes int // payload and buffer bytes not sent yet
	away  int // of these, bytes that are leaving in the background: the first segment
	// payloads is how many there are, and room says that others may wait for the one
	// that is away.
	payloads int
	room     bool
}

func (p *parked) empty() bool { return p.bytes == 0 }

// full says that nothing more should be parked. Where the socket is full one payload
// is enough: others would only hold their pipes, and who never receives would hold
// many. Behind one that leaves in the background others are made ready meanwhile.
func (p *parked) full() bool {
	return p.bytes-p.away >= maxParked || p.payloads > 0 && !(p.away > 0 && p.room)
}

// add parks bytes.
func (p *parked) add(b []byte) {
	if len(b) == 0 {
		return
	}
	p.compact()
	p.buf = append(p.buf, b...)
	p.bytes += len(b)
	if n := len(p.segs); n > p.first && p.segs[n-1].payload == nil {
		p.segs[n-1].end = len(p.buf)
		return
	}
	p.segs = append(p.segs, segment{end: len(p.buf)})
}

// addPayload parks a payload behind the bytes, with the padding it needs.
func (p *parked) addPayload(pl Payload, pad int) {
	if b, ok := pl.(BackgroundPayload); ok {
		b.Pad(pad)
		pad = 0
	}
	p.bytes += pl.Len()
	p.payloads++
	if n := len(p.segs); n > p.first && p.segs[n-1].payload == nil {
		p.segs[n-1].payload = pl // bytes and payload leave together
	} else {
		p.segs = append(p.segs, segment{end: len(p.buf), payload: pl})
	}
	p.add(zeros[:pad])
}

var zeros [3]byte

// compact forgets what has left, once it is much: a connection that always has
// something parked never comes to reset.
func (p *parked) compact() {
	if p.sent < compactBytes && p.first < compactSegments {
		return
	}
	rest := p.buf[p.sent:]
	if p.away > 0 {
		p.buf = nil // the kernel still reads from the old one
	}
	p.buf = append(p.buf[:0], rest...)
	n := copy(p.segs, p.segs[p.first:])
	clear(p.segs[n:])
	p.segs = p.segs[:n]
	for i := range p.segs {
		p.segs[i].end -= p.sent
	}
	p.sent, p.first = 0, 0
}

// flush sends what it can. It returns nil when the socket is full, what comes
// next leaves in the background, or nothing is left, and another error when the
// connection is broken. done is told of what leaves in the background.
func (p *parked) flush(fd int, done Sent) error {
	for p.first < len(p.segs) {
		s := &p.segs[p.first]
		more := p.first < len(p.segs)-1
		if p.away > 0 || p.start(fd, s, more, done) {
			return nil
		}
		n, err := p.sendSegment(fd, s, more)
		p.bytes -= n
		switch {
		case err == unix.EAGAIN:
			return nil
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case p.sent == s.end && (s.payload == nil || s.payload.Len() == 0):
			p.pop()
		}
	}
	p.reset()
	return nil
}

// start has a segment sent in the background, if it can be.
func (p *parked) start(fd int, s *segment, more bool, done Sent) bool {
	b, ok := s.payload.(BackgroundPayload)
	if !ok {
		return false
	}
	head := p.buf[p.sent:s.end]
	p.away, p.room = len(head)+b.Len(), b.Room()
	if !b.Start(fd, head, more, done) {
		p.away = 0
	}
	return p.away > 0
}

// landed says that what was away has left.
func (p *parked) landed() {
	p.sent = p.segs[p.first].end
	p.bytes -= p.away
	p.away = 0
	p.pop()
}

// pop forgets the first segment, which has left.
func (p *parked) pop() {
	s := &p.segs[p.first]
	if s.payload != nil {
		s.payload.Release()
		s.payload = nil
		p.payloads--
	}
	p.first++
}

// sendSegment makes one send: bytes of the segment first, then its payload.
func (p *parked) sendSegment(fd int, s *segment, more bool) (int, error) {
	if p.sent == s.end {
		return s.payload.SendTo(fd, more)
	}
	flags := 0
	if more || s.payload != nil {
		flags = unix.MSG_MORE
	}
	n, err := send(fd, p.buf[p.sent:s.end], flags)
	p.sent += n
	return n, err
}

// reset forgets everything, keeping small buffers for next time.
func (p *parked) reset() {
	for i := p.first; i < len(p.segs); i++ {
		if pl := p.segs[i].payload; pl != nil {
			pl.Release()
		}
	}
	clear(p.segs)
	const keep = 16 << 10
	if cap(p.buf) > keep {
		p.buf = nil
	}
	*p = parked{buf: p.buf[:0], segs: p.segs[:0]}
}
