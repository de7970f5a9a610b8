package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

func init() {
	// The watch below has no list in it.
	if len(os.Args) > 1 && os.Args[1] == "rounds" {
		_ = os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	}
}

var (
	objects  []*corev1.ConfigMap
	nsEach   float64 // of one turn of spin
	spinning atomic.Uint64
)

// twoWorkers is how much faster two workers are than one.
func twoWorkers(asked question) (float64, error) {
	one, err := path(asked, 1)
	if err != nil {
		return 0, err
	}
	two, err := path(asked, 2)
	return one / two, err
}

// path is a key's way from the watch's event through reflector, store, handler and queue to a worker, in microseconds of
// a key: a shared informer on a watch that has all events at hand.
func path(asked question, workers int) (float64, error) {
	if asked.Peer != "client-go" {
		return 0, fmt.Errorf("%s: no peer %q", asked.Metric, asked.Peer)
	}
	for at := len(objects); at < asked.Size; at++ {
		meta := metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", at%100), Name: fmt.Sprintf("web-%07d", at),
			UID: "4ad9c1a6-6d1b-4bb5-8d63-6f1c8a6f2f10", ResourceVersion: strconv.Itoa(at + 2),
			Labels: map[string]string{"app": "web"},
		}
		objects = append(objects, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}})
	}
	work := iterations(time.Duration(asked.WorkNs))
	events := make(chan watch.Event, asked.Size)
	source := &cache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return watch.NewProxyWatcher(events), nil },
	}
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	informer := cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, byNamespace)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}})
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var tasks sync.WaitGroup
	tasks.Go(func() { informer.RunWithContext(ctx) })
	var reconciled atomic.Int64
	all := make(chan struct{})
	for range workers {
		tasks.Go(func() {
			for {
				key, over := queue.Get()
				if over {
					return
				}
				if work > 0 {
					spin(work)
				}
				queue.Forget(key)
				queue.Done(key)
				if reconciled.Add(1) == int64(asked.Size) {
					close(all)
				}
			}
		})
	}
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return 0, fmt.Errorf("the informer does not sync")
	}
	start := time.Now()
	for _, object := range objects[:asked.Size] {
		events <- watch.Event{Type: watch.Added, Object: object}
	}
	<-all
	took := micros(start, asked.Size)
	stop()
	queue.ShutDown()
	tasks.Wait()
	return took, nil
}

// spin is work for the processor and nothing else.
func spin(iterations int) {
	x := uint64(iterations) | 1
	for range iterations {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	spinning.Store(x)
}

// iterations says how often spin has to go round for so long, on a processor of its own; measured once.
func iterations(work time.Duration) int {
	if work <= 0 {
		return 0
	}
	const some = 1_000_000
	if nsEach == 0 {
		nsEach = math.Inf(1)
		for range 10 {
			start := time.Now()
			spin(some)
			nsEach = min(nsEach, float64(time.Since(start).Nanoseconds())/some)
		}
	}
	return int(float64(work.Nanoseconds()) / nsEach)
}
