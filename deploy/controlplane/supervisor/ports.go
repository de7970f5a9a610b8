// Ports on 127.0.0.1, remembered in --dir so that a kubeconfig stays valid over
// restarts.
//
// They lie below the ranges that Linux (32768) and macOS (49152) assign for port 0
// and for outgoing connections, so no other process gets the port of a killed API
// server by chance before its restart. Two supervisors can still choose the same
// port; the one that fails to bind starts again with others.

package supervisor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	firstPort = 20000
	lastPort  = 29999
)

// ports is the content of ports.json; 0 means not chosen yet.
type ports struct {
	APIServer  int `json:"kube-apiserver"`
	EtcdClient int `json:"etcd-client"`
	EtcdPeer   int `json:"etcd-peer"`
}

func loadPorts(path string) ports {
	var known ports
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, &known) // unreadable: as if there were none
	}
	return known
}

func (p ports) save(path string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return writeFile(path, append(text, '\n'))
}

// choosePorts keeps each remembered port that is free and replaces the others. A
// fixed port is the user's choice for the API server and is never replaced. It
// waits for a remembered port until patience is over: the children of a killed
// predecessor may still be ending. It returns an error if no port is free.
func choosePorts(known ports, fixed int, patience time.Duration, free func(int) bool) (ports, error) {
	deadline := time.Now().Add(patience)
	taken := map[int]bool{fixed: true}
	choose := func(port int) (int, error) {
		for port != 0 && !taken[port] {
			if free(port) {
				taken[port] = true
				return port, nil
			}
			if time.Now().After(deadline) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		for range 1000 {
			port := firstPort + rand.IntN(lastPort-firstPort+1)
			if !taken[port] && free(port) {
				taken[port] = true
				return port, nil
			}
		}
		return 0, fmt.Errorf("no free port on 127.0.0.1 between %d and %d", firstPort, lastPort)
	}

	var chosen ports
	var err error
	if fixed == 0 {
		if chosen.APIServer, err = choose(known.APIServer); err != nil {
			return ports{}, err
		}
	} else {
		for !free(fixed) {
			if time.Now().After(deadline) {
				return ports{}, fmt.Errorf("port %d is taken by another program", fixed)
			}
			time.Sleep(50 * time.Millisecond)
		}
		chosen.APIServer = fixed
	}
	if chosen.EtcdClient, err = choose(known.EtcdClient); err != nil {
		return ports{}, err
	}
	chosen.EtcdPeer, err = choose(known.EtcdPeer)
	return chosen, err
}

// isFree reports whether 127.0.0.1:port can be listened on now.
func isFree(port int) bool {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
