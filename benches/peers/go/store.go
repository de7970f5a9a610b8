package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"
)

// fill puts Pods into an informer's indexer and says what one costs: bytes of heap, and of the process, after a
// collection.
func fill(peer string) error {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	heapBefore, rssBefore := memory()
	count := 0
	for {
		line, err := input.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		object, err := decode(peer, line)
		if err != nil {
			return fmt.Errorf("Pod %d: %w", count, err)
		}
		if err := indexer.Add(object); err != nil {
			return fmt.Errorf("Pod %d: %w", count, err)
		}
		count++
	}
	if count == 0 {
		return errors.New("no Pods on standard input")
	}
	input = nil
	heap, rss := memory()
	stored := len(indexer.ListKeys())
	if stored != count {
		return fmt.Errorf("%d Pods came, %d are stored: two have one name", count, stored)
	}
	each := func(before, after float64) float64 { return (after - before) / float64(count) }
	say(answer{
		Metric: "store.bytes_per_pod", Peer: peer, Unit: "B", Objects: count,
		Samples: []float64{each(heapBefore, heap)}, RSS: each(rssBefore, rss),
	})
	runtime.KeepAlive(indexer)
	return nil
}

func decode(peer string, line []byte) (any, error) {
	switch peer {
	case "client-go", "client-go-stripped":
		var pod corev1.Pod
		if err := json.Unmarshal(line, &pod); err != nil {
			return nil, err
		}
		if peer == "client-go-stripped" { // controller-runtime's cache.TransformStripManagedFields
			pod.ManagedFields = nil
		}
		return &pod, nil
	case "client-go-unstructured":
		var pod unstructured.Unstructured
		return &pod, pod.UnmarshalJSON(line)
	}
	return nil, fmt.Errorf("no peer %q", peer)
}

// memory is the bytes in use of the heap and of the process, both after a collection.
func memory() (heap, rss float64) {
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var kilobytes float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kilobytes); err == nil {
			rss = kilobytes * 1024
		}
	}
	return float64(stats.HeapAlloc), rss
}
