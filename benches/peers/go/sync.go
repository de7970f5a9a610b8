package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// marker is the label of an object whose arrival is told.
const marker = "bench.operetta.dev/marker"

// synchronise starts shared informers, says how long they took to sync since the program began, then names each marked
// object that arrives. It ends with its input.
func synchronise(kubeconfig, peer string, kinds int) error {
	start := time.Now()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "peer-go"
	if kinds > 0 {
		config.QPS = -1 // else client-go waits for itself, five requests a second
	}
	found, err := informersOf(config, peer, kinds)
	if err != nil {
		return err
	}
	ctx := context.Background()
	var synced []cache.InformerSynced
	for _, informer := range found {
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    tell,
			UpdateFunc: func(_, object any) { tell(object) },
		})
		if err != nil {
			return err
		}
		synced = append(synced, handler.HasSynced)
		go informer.RunWithContext(ctx)
	}
	// WaitForCacheSync looks every 100 ms only.
	for _, is := range synced {
		for !is() {
			time.Sleep(time.Millisecond)
		}
	}
	took := time.Since(start).Seconds()
	count := 0
	for _, informer := range found {
		count += len(informer.GetStore().ListKeys())
	}
	say(answer{Metric: "informer.initial_list", Peer: peer, Unit: "s", Samples: []float64{took}, Objects: count})
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func informersOf(config *rest.Config, peer string, kinds int) ([]cache.SharedIndexInformer, error) {
	switch {
	case kinds > 0:
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		var found []cache.SharedIndexInformer
		for at := range kinds {
			group := fmt.Sprintf("g%02d.bench.operetta.dev", at%100)
			resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: fmt.Sprintf("kind%04ds", at)}
			found = append(found, factory.ForResource(resource).Informer())
		}
		return found, nil
	case peer == "client-go-unstructured":
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		return []cache.SharedIndexInformer{factory.ForResource(pods).Informer()}, nil
	case peer == "client-go-protobuf":
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	case peer != "client-go":
		return nil, fmt.Errorf("no peer %q", peer)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	return []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer()}, nil
}

func tell(object any) {
	if object, err := meta.Accessor(object); err == nil && object.GetLabels()[marker] != "" {
		say(map[string]string{"marker": object.GetName()})
	}
}
