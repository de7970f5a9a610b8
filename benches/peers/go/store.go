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
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kinds "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// known are the kinds that have a Go type here.
var known = func() *kinds.Scheme {
	known := kinds.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	utilruntime.Must(apiextensions.AddToScheme(known))
	return known
}()

// fill puts objects into indexers, one for each kind as its informer has one, and says what an object costs: bytes of heap,
// and of the process, after a collection.
func fill(peer string) error {
	indexers := map[schema.GroupVersionKind]cache.Indexer{}
	heapBefore, rssBefore := memory()
	count := 0
	err := lines(os.Stdin, func(line []byte) error {
		kind, object, err := decode(peer, line)
		if err != nil {
			return fmt.Errorf("object %d: %w", count, err)
		}
		if indexers[kind] == nil {
			byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
			indexers[kind] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)
		}
		count++
		return indexers[kind].Add(object)
	})
	if err != nil {
		return err
	}
	if count == 0 {
		return errors.New("no objects on standard input")
	}
	heap, rss := memory()
	stored := 0
	for _, indexer := range indexers {
		stored += len(indexer.ListKeys())
	}
	if stored != count {
		return fmt.Errorf("%d objects came, %d are stored: two have one name", count, stored)
	}
	each := func(before, after float64) float64 { return (after - before) / float64(count) }
	say(answer{
		Metric: "store.bytes", Peer: peer, Unit: "B", Objects: count,
		Samples: []float64{each(heapBefore, heap)}, RSS: each(rssBefore, rss),
	})
	runtime.KeepAlive(indexers)
	return nil
}

// lines reads them to the end; they are good until the next one.
func lines(input io.Reader, each func([]byte) error) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// decode reads an object into its Go type, if the peer uses types and there is one.
func decode(peer string, line []byte) (schema.GroupVersionKind, any, error) {
	var of metav1.TypeMeta
	if err := json.Unmarshal(line, &of); err != nil {
		return schema.GroupVersionKind{}, nil, err
	}
	kind := of.GroupVersionKind()
	object, err := empty(peer, kind)
	if err != nil {
		return kind, nil, err
	}
	if untyped, is := object.(*unstructured.Unstructured); is {
		err = untyped.UnmarshalJSON(line)
	} else {
		err = json.Unmarshal(line, object)
	}
	if strings.HasSuffix(peer, "-stripped") { // controller-runtime's cache.TransformStripManagedFields
		object.SetManagedFields(nil)
	}
	return kind, object, err
}

func empty(peer string, kind schema.GroupVersionKind) (metav1.Object, error) {
	switch peer {
	case "client-go", "client-go-stripped":
		if known.Recognizes(kind) {
			object, err := known.New(kind)
			return object.(metav1.Object), err
		}
	case "client-go-unstructured", "client-go-unstructured-stripped":
	default:
		return nil, fmt.Errorf("no peer %q", peer)
	}
	return &unstructured.Unstructured{}, nil
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

// held are the Pods that store.get and store.list_per_object read, of the file that was asked for last.
var held struct {
	file    string
	indexer cache.Indexer
	keys    []string // in no order
	next    int
}

const byLabel = "bench"

// hold reads a file of Pods into an indexer, with an index that has so many of them under one value.
func hold(file string, found int) error {
	if held.file == file {
		return nil
	}
	input, err := os.Open(file)
	if err != nil {
		return err
	}
	defer input.Close()
	held.indexer = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		byLabel:              func(object any) ([]string, error) { return []string{object.(*corev1.Pod).Labels[byLabel]}, nil },
	})
	count := 0
	err = lines(input, func(line []byte) error {
		_, object, err := decode("client-go", line)
		if err != nil {
			return err
		}
		if count < found {
			object.(*corev1.Pod).Labels[byLabel] = "yes"
		}
		count++
		return held.indexer.Add(object)
	})
	held.file, held.keys = file, held.indexer.ListKeys() // of a map: in no order
	return err
}

// storeGet is one read of a key by chance, one of so many, until the object is at hand; microseconds.
func storeGet(asked question) (float64, error) {
	if err := hold(asked.File, asked.Found); err != nil {
		return 0, err
	}
	among := min(asked.Among, len(held.keys))
	start := time.Now()
	length := 0
	for range asked.Size {
		object, _, _ := held.indexer.GetByKey(held.keys[held.next%among])
		length += len(object.(*corev1.Pod).Spec.NodeName)
		held.next++
	}
	return micros(start, asked.Size), looked(length)
}

// storeList is one object of a list by index; microseconds.
func storeList(asked question) (float64, error) {
	if err := hold(asked.File, asked.Found); err != nil {
		return 0, err
	}
	start := time.Now()
	found, err := held.indexer.ByIndex(byLabel, "yes")
	length := 0
	for _, object := range found {
		length += len(object.(*corev1.Pod).Spec.NodeName)
	}
	if len(found) != asked.Found {
		return 0, fmt.Errorf("%d Pods are found, not %d: %w", len(found), asked.Found, err)
	}
	return micros(start, len(found)), looked(length)
}

// looked makes sure that the objects were looked at.
func looked(length int) error {
	if length == 0 {
		return errors.New("the Pods have no node")
	}
	return nil
}
