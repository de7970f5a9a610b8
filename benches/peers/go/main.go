// Peers of Operetta's benches: the same work done by client-go and controller-runtime.
//
//	peer-go rounds                                    one question a line on stdin, one answer a line on stdout
//	peer-go sync --kubeconfig F --peer P [--kinds N]  one line when the informers have synced; ends with stdin
//	peer-go store --peer P                            objects as JSON lines on stdin, one line when all are in the cache
//
// ../README.md says what is in the lines. A line with "error" means that there is no figure.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"k8s.io/klog/v2"
)

// question asks for one round.
type question struct {
	Metric string `json:"metric"`
	Peer   string `json:"peer"`
	Size   int    `json:"size"`   // keys
	Passes int    `json:"passes"` // the round's value is the median of so many
	WorkNs int    `json:"workNs"` // processor time of a reconcile, of path.*
	File   string `json:"file"`   // of Pods, of store.*
	Among  int    `json:"among"`  // so many keys, of store.get*
	Found  int    `json:"found"`  // so many objects are found by index, of store.*
}

// answer is one line of output.
type answer struct {
	Metric  string    `json:"metric"`
	Peer    string    `json:"peer"`
	Unit    string    `json:"unit,omitempty"`
	Samples []float64 `json:"samples"`
	Objects int       `json:"objects,omitempty"`
	// Of the whole process, where the metric is bytes of heap.
	RSS float64 `json:"rss,omitempty"`
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: peer-go rounds|sync|store"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	peer := flags.String("peer", "client-go", "which way of using the library")
	kubeconfig := flags.String("kubeconfig", "", "of sync")
	kinds := flags.Int("kinds", 0, "of sync: so many kinds of custom resources, instead of Pods")
	_ = flags.Parse(os.Args[2:])
	var err error
	switch os.Args[1] {
	case "rounds":
		err = rounds()
	case "sync":
		err = synchronise(*kubeconfig, *peer, *kinds)
	case "store":
		err = fill(*peer)
	default:
		err = fmt.Errorf("no such command: %s", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

func rounds() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		var measure func(question) (float64, error)
		switch asked.Metric {
		case "queue.per_key":
			measure = queuePerKey
		case "queue.add_after":
			measure = queueAddAfter
		case "store.get", "store.get_hot":
			measure = storeGet
		case "store.list_per_object":
			measure = storeList
		case "path.two_workers":
			measure = twoWorkers
		default:
			measure = func(asked question) (float64, error) { return path(asked, 1) }
		}
		passes := make([]float64, max(asked.Passes, 1))
		for at := range passes {
			value, err := measure(asked)
			if err != nil {
				return err
			}
			passes[at] = value
		}
		slices.Sort(passes)
		say(answer{Metric: asked.Metric, Peer: asked.Peer, Samples: []float64{passes[len(passes)/2]}})
	}
	return lines.Err()
}

// say writes one line.
func say(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func fail(err error) {
	text, _ := json.Marshal(map[string]string{"error": err.Error()})
	fmt.Println(string(text))
	os.Exit(1)
}
