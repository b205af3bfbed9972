package nfsd

import (
	"sluice/nfsd/sendpath"
	"sluice/rpc"
)

// Worst-case results in bytes.
const (
	attrReply    = statusLen + fattrLen
	postOpReply  = statusLen + postOpAttrLen
	wccReply     = statusLen + wccDataLen
	twoWccReply  = statusLen + 2*wccDataLen
	lookupReply  = postOpReply + 4 + nfs3FHSize + postOpAttrLen
	readlinkRply = postOpReply + 4 + maxSymlink
	readReply    = readResultsLen + sendpath.InlineRead
	fsReply      = postOpReply + 64
)

// NFS returns the NFS program: version 3, all 22 procedures in RFC 1813's order.
func (s *Server) NFS() rpc.Program {
	procs := []rpc.Procedure{
		{Name: "NULL", Handle: rpc.Null},
		{Name: "GETATTR", Handle: getattrProc, MaxReply: attrReply},
		{Name: "SETATTR", Handle: modifying(parseSetattr, oneWcc), MaxReply: wccReply},
		{Name: "LOOKUP", Handle: lookupProc, MaxReply: lookupReply},
		{Name: "ACCESS", Handle: accessProc, MaxReply: postOpReply + 4},
		{Name: "READLINK", Handle: readlinkProc, MaxReply: readlinkRply},
		{Name: "READ", Handle: readProc, MaxReply: readReply},
		{Name: "WRITE", Handle: modifying(parseWrite, oneWcc), MaxReply: wccReply},
		{Name: "CREATE", Handle: modifying(parseCreate, oneWcc), MaxReply: wccReply},
		{Name: "MKDIR", Handle: modifying(parseMkdir, oneWcc), MaxReply: wccReply},
		{Name: "SYMLINK", Handle: modifying(parseSymlink, oneWcc), MaxReply: wccReply},
		{Name: "MKNOD", Handle: modifying(parseMknod, oneWcc), MaxReply: wccReply},
		{Name: "REMOVE", Handle: modifying(parseName, oneWcc), MaxReply: wccReply},
		{Name: "RMDIR", Handle: modifying(parseName, oneWcc), MaxReply: wccReply},
		{Name: "RENAME", Handle: modifying(parseRename, twoWcc), MaxReply: twoWccReply},
		{Name: "LINK", Handle: modifying(parseLink, attrThenWcc), MaxReply: twoWccReply},
		{Name: "READDIR", Handle: readdirProc, MaxReply: maxReaddir},
		{Name: "READDIRPLUS", Handle: readdirplusProc, MaxReply: maxReaddir},
		{Name: "FSSTAT", Handle: aboutFS(fsstat), MaxReply: fsReply},
		{Name: "FSINFO", Handle: aboutFS(fsinfo), MaxReply: fsReply},
		{Name: "PATHCONF", Handle: aboutFS(pathconf), MaxReply: fsReply},
		{Name: "COMMIT", Handle: modifying(parseCommit, oneWcc), MaxReply: wccReply},
	}
	return rpc.Program{Number: nfsProgram, Name: "nfs", Versions: []rpc.Version{{Number: nfsVersion, Procs: procs}}}
}
