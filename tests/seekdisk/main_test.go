package seekdisk

import (
	"os"
	"testing"

	"sluice/tests/private"
)

func TestMain(m *testing.M) {
	if status, done := private.Again(); done {
		os.Exit(status)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
