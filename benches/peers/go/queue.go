package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What the libraries' users put in: controllers on client-go use "namespace/name", controller-runtime its Request.
var (
	texts    []string
	requests []reconcile.Request
)

func keys(size int) {
	if len(texts) == size {
		return
	}
	texts, requests = make([]string, size), make([]reconcile.Request, size)
	for at := range size {
		key := types.NamespacedName{Namespace: fmt.Sprintf("team-%d", at%100), Name: fmt.Sprintf("web-%05d", at)}
		texts[at], requests[at] = key.String(), reconcile.Request{NamespacedName: key}
	}
}

// One queue of each throughout: growing its tables is not what is measured. Without a name they have no metrics.
var (
	clientGo          = newClientGo()
	controllerRuntime = newControllerRuntime()
)

func newClientGo() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
}

func newControllerRuntime() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return priorityqueue.New[reconcile.Request]("")
}

// queuePerKey is add + get + forget + done of each key, all keys in the queue at once; microseconds of a key.
func queuePerKey(asked question) (float64, error) {
	keys(asked.Size)
	switch asked.Peer {
	case "client-go":
		return perKey(clientGo, texts), nil
	case "controller-runtime":
		return perKey(controllerRuntime, requests), nil
	}
	return 0, fmt.Errorf("%s: no peer %q", asked.Metric, asked.Peer)
}

func perKey[T comparable](queue workqueue.TypedRateLimitingInterface[T], keys []T) float64 {
	start := time.Now()
	for _, key := range keys {
		queue.Add(key)
	}
	for range keys {
		key, _ := queue.Get()
		queue.Forget(key)
		queue.Done(key)
	}
	return micros(start, len(keys))
}

// queueAddAfter is one call with a delay that does not end; microseconds.
func queueAddAfter(asked question) (float64, error) {
	keys(asked.Size)
	switch asked.Peer {
	case "client-go":
		return addAfter(newClientGo(), texts), nil
	case "controller-runtime":
		return addAfter(newControllerRuntime(), requests), nil
	}
	return 0, fmt.Errorf("%s: no peer %q", asked.Metric, asked.Peer)
}

func addAfter[T comparable](queue workqueue.TypedRateLimitingInterface[T], keys []T) float64 {
	defer queue.ShutDown()
	start := time.Now()
	for at, key := range keys {
		// Spread over a thousand seconds without order.
		millis := uint64(at) * 0x9E37_79B9_7F4A_7C15 >> 44
		queue.AddAfter(key, time.Duration(10_000+millis)*time.Millisecond)
	}
	return micros(start, len(keys))
}

func micros(start time.Time, keys int) float64 {
	return float64(time.Since(start).Nanoseconds()) / 1e3 / float64(keys)
}
