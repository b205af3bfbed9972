package numa

// The guest's network card, and what it finds its scenarios and files in.
const (
	GuestIP   = "10.0.2.15"
	Port      = "2049"
	Scenarios = "/scenarios.json"
	Exports   = "/exports"
	Reports   = "/dev/ttyS1" // a line of JSON for each scenario
	DataDir   = "/srv"       // an ext4 file system
	DataFile  = "data"
	ChunkSize = 64 << 10 // of a READ
)

// Scenario is one run of the server.
type Scenario struct {
	Name   string
	NUMA   string // --numa
	Listen string // an address; the port is Port
	Args   []string
	// Cpuset and CpusetMems are those of a cgroup to run in, none if empty.
	Cpuset, CpusetMems string
	// Clients are CPUs that clients read from, one after the other.
	Clients []int
}

// Report is what came of it.
type Report struct {
	Name  string
	Error string // of the agent
	// Exit is the exit status of a server that does not serve; otherwise -1.
	Exit   int
	PID    int
	Log    string         // standard error of the server
	Status map[string]any // what `sluice status --json` says
	Tasks  []Task         // after the clients
	// Memory has the lines of the server's numa_maps for memory that has a policy of
	// its own, without their addresses.
	Memory []string
	Reads  []Reading // by client
}

// Task is a thread of the server.
type Task struct {
	TID    int
	Comm   string
	CPUs   string // Cpus_allowed_list
	Mems   string // Mems_allowed_list
	Policy string // of memory without one of its own, from numa_maps
	RunNS  int64  // time on a CPU
}

// Reading is what one client did, and which threads ran for it.
type Reading struct {
	CPU   int
	Bytes int
	Sum   string           // SHA-256 of what was read
	RunNS map[string]int64 // by thread name, while it read
}
