// Command outage is a controller on controller-runtime's defaults for `make bench-outage`. It sets data.touched of each
// ConfigMap labelled operetta-fixture=true to v1, as the plugin fixture-touch-v1 does. KUBECONFIG names the API server, and
// NAMESPACE the namespace.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// wanted is the value of data.touched.
const wanted = "v1"

type reconciler struct{ client.Client }

// Reconcile writes only if the value differs.
func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	found := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if found.Data["touched"] == wanted {
		return ctrl.Result{}, nil
	}
	if found.Data == nil {
		found.Data = map[string]string{}
	}
	found.Data["touched"] = wanted
	return ctrl.Result{}, r.Update(ctx, found)
}

func main() {
	if err := run(os.Getenv("NAMESPACE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(namespace string) error {
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache: cache.Options{
			DefaultNamespaces:    map[string]cache.Config{namespace: {}},
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"operetta-fixture": "true"}),
		},
		// kubebuilder's default; several processes cannot share a port.
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
