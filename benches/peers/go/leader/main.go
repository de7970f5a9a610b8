// Command leader is one of several replicas on controller-runtime with leader election. Its reconciler reads a ConfigMap,
// waits a moment, and patches it: `data.seen` becomes `data.tick`. It does the same as the fixture `misbehave` with
// {"do": "slow"}, for the comparison in `make bench-replicas`: how many writes of a stopped leader does the API server accept
// after another replica has led?
//
//	peer-leader --kubeconfig F --namespace N --id NAME --lease 4s
//
// NAME is its User-Agent, by which the API server's audit log tells the replicas apart. The deadlines of leader election have
// the proportions of controller-runtime's defaults.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// pause is the time between a reconcile's read and its write.
const pause = 300 * time.Millisecond

// workers is the number of reconciles at once.
const workers = 4

type reconciler struct{ client.Client }

// Reconcile sets data.seen of a ConfigMap to its data.tick.
func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	found := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, found); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if found.Data["tick"] == found.Data["seen"] {
		return ctrl.Result{}, nil
	}
	select {
	case <-ctx.Done():
		return ctrl.Result{}, ctx.Err()
	case <-time.After(pause):
	}
	before := found.DeepCopy()
	found.Data["seen"] = found.Data["tick"]
	return ctrl.Result{}, r.Patch(ctx, found, client.MergeFrom(before))
}

func main() {
	// controller-runtime defines flags of its own in the common set.
	flags := flag.NewFlagSet("peer-leader", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the cluster")
	namespace := flags.String("namespace", "", "of the ConfigMaps and of the Lease")
	id := flags.String("id", "", "the User-Agent")
	lease := flags.Duration("lease", 4*time.Second, "the duration of the Lease")
	// It exits if it fails.
	_ = flags.Parse(os.Args[1:])
	if err := run(*kubeconfig, *namespace, *id, *lease); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace, id string, lease time.Duration) error {
	ctrl.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = id
	renew, retry := lease*10/15, lease*2/15
	selector := labels.SelectorFromSet(labels.Set{"operetta-fixture": "true"})
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache: cache.Options{
			DefaultNamespaces:    map[string]cache.Config{namespace: {}},
			DefaultLabelSelector: selector,
		},
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "leader",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
