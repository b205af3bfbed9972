package nfsd

import "sluice/rpc"

// getattrProc is GETATTR (section 3.3.1). It needs no permission on the object.
func getattrProc(c *rpc.Call) rpc.Result {
	fh, ok := parseHandle(&c.Args)
	if !ok {
		return rpc.GarbageArgs
	}
	w := c.Thread.(*worker)
	t, st := w.resolve(c, fh)
	if st == wait {
		return rpc.Wait
	}
	c.Reply = appendStatus(c.Reply, st)
	if st == nfs3OK {
		c.Reply = appendFattr(c.Reply, &t.attr)
		t.release()
	}
	return rpc.Done
}
