// Command native runs the controller of examples/cloud-manager/go on controller-runtime: `api/` and `internal/` are the code that the
// plugin has, too. For `make bench-cloud`. NAMESPACE is the namespace to watch; without it, all are watched.
//
// Its module is named as one inside of the example's, whose packages are internal.
package main

import (
	"context"
	"os"

	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cloudv1 "cloud-manager/api/v1"
	"cloud-manager/internal/controller"
)

func main() {
	ctx := ctrl.SetupSignalHandler()
	if err := run(ctx, os.Getenv("NAMESPACE")); err != nil {
		log.FromContext(ctx).Error(err, "manager failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string) error {
	if err := cloudv1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme,
		Cache:  cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		// kubebuilder's default; several processes cannot share a port.
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	reconciler := &controller.CloudManagerReconciler{
		Client:   manager.GetClient(),
		Scheme:   manager.GetScheme(),
		Recorder: manager.GetEventRecorderFor("cloudmanager-controller"),
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		return err
	}
	return manager.Start(ctx)
}
