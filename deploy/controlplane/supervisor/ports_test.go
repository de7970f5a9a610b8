package supervisor

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func allFree(int) bool { return true }

func TestPortsStayTheSameAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports.json")
	first, err := choosePorts(loadPorts(path), 0, 0, allFree)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.save(path); err != nil {
		t.Fatal(err)
	}
	second, err := choosePorts(loadPorts(path), 0, 0, allFree)
	if err != nil || second != first {
		t.Errorf("second start: %v, %v; want %v", second, err, first)
	}
}

func TestChosenPortsDifferAndAreInRange(t *testing.T) {
	for range 100 {
		chosen, err := choosePorts(ports{APIServer: 20001, EtcdClient: 20001, EtcdPeer: 20001}, 0, 0, allFree)
		if err != nil {
			t.Fatal(err)
		}
		if chosen.APIServer == chosen.EtcdClient || chosen.EtcdClient == chosen.EtcdPeer || chosen.APIServer == chosen.EtcdPeer {
			t.Fatalf("%v: the same port twice", chosen)
		}
		for _, port := range []int{chosen.APIServer, chosen.EtcdClient, chosen.EtcdPeer} {
			if port < firstPort || port > lastPort {
				t.Fatalf("%v: out of range", chosen)
			}
		}
	}
}

func TestChoosePortsReplacesPortThatStaysTaken(t *testing.T) {
	known := ports{APIServer: 20001, EtcdClient: 20002, EtcdPeer: 20003}
	chosen, err := choosePorts(known, 0, 0, func(port int) bool { return port != 20001 })
	if err != nil {
		t.Fatal(err)
	}
	if chosen.APIServer == 20001 || chosen.EtcdClient != 20002 || chosen.EtcdPeer != 20003 {
		t.Errorf("chosen %v from %v with 20001 taken", chosen, known)
	}
}

func TestChoosePortsKeepsPortFreedInTime(t *testing.T) {
	asked := 0
	chosen, err := choosePorts(ports{APIServer: 20001}, 0, time.Minute, func(port int) bool {
		asked++
		return port != 20001 || asked > 2
	})
	if err != nil || chosen.APIServer != 20001 {
		t.Errorf("chosen %v, %v; want port 20001", chosen, err)
	}
}

func TestChoosePortsNeverReplacesFixedPort(t *testing.T) {
	known := ports{APIServer: 20001, EtcdClient: 6443}
	chosen, err := choosePorts(known, 6443, 0, allFree)
	if err != nil || chosen.APIServer != 6443 || chosen.EtcdClient == 6443 {
		t.Errorf("chosen %v, %v", chosen, err)
	}
	_, err = choosePorts(known, 6443, 0, func(port int) bool { return port != 6443 })
	if err == nil || !strings.Contains(err.Error(), "6443") {
		t.Errorf("error %v, want it to name the port", err)
	}
}

func TestChoosePortsFailsWithoutFreePort(t *testing.T) {
	if _, err := choosePorts(ports{}, 0, 0, func(int) bool { return false }); err == nil {
		t.Error("no error")
	}
}

func TestListeningPortIsNotFree(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if isFree(port) {
		t.Errorf("port %d is free while it is listened on", port)
	}
	listener.Close()
	if !isFree(port) {
		t.Errorf("port %d is not free after its listener closed", port)
	}
}
