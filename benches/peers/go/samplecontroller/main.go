// Command samplecontroller is Kubernetes' sample-controller on controller-runtime: the native counterpart of
// examples/sample-controller/go, for the comparison in docs/sdks.md and for `make bench-e2e` and `make bench-density`.
// NAMESPACE is the namespace to watch; without it, all are watched.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Foo is the kind of examples/sample-controller/crd.yaml.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FooSpec    `json:"spec"`
	Status            *FooStatus `json:"status,omitempty"`
}

// FooSpec is the desired Deployment.
type FooSpec struct {
	// DeploymentName is the Deployment's name.
	DeploymentName string `json:"deploymentName"`
	// Replicas is the number of replicas; nil leaves it alone.
	Replicas *int32 `json:"replicas,omitempty"`
}

// FooStatus is the observed Deployment.
type FooStatus struct {
	// AvailableReplicas is the Deployment's number of available replicas.
	AvailableReplicas int32 `json:"availableReplicas"`
}

// FooList is a list of Foos.
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Foo `json:"items"`
}

type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

func main() {
	ctx := ctrl.SetupSignalHandler()
	if err := run(ctx, os.Getenv("NAMESPACE")); err != nil {
		log.FromContext(ctx).Error(err, "manager failed")
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string) error {
	group := schema.GroupVersion{Group: "samplecontroller.k8s.io", Version: "v1alpha1"}
	scheme.Scheme.AddKnownTypes(group, &Foo{}, &FooList{})
	metav1.AddToGroupVersion(scheme.Scheme, group)
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
	r := &reconciler{manager.GetClient(), manager.GetEventRecorder("sample-controller")}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Foo{}).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// Reconcile brings the Deployment and the status of one Foo to the desired state.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	foo := &Foo{}
	if err := r.Get(ctx, request.NamespacedName, foo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if foo.Spec.DeploymentName == "" {
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("%s: deployment name must be specified", request))
	}

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: foo.Spec.DeploymentName, Namespace: foo.Namespace}}
	_, err := ctrl.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		if deployment.UID == "" {
			return describe(foo, deployment, r.Scheme())
		}
		if !metav1.IsControlledBy(deployment, foo) {
			message := fmt.Sprintf("Resource %q already exists and is not managed by Foo", deployment.Name)
			r.recorder.Eventf(foo, nil, corev1.EventTypeWarning, "ErrResourceExists", "Sync", "%s", message)
			return fmt.Errorf("%s", message)
		}
		if foo.Spec.Replicas != nil {
			deployment.Spec.Replicas = foo.Spec.Replicas
		}
		return nil
	})
	if err != nil {
		return ctrl.Result{}, err
	}

	status := FooStatus{AvailableReplicas: deployment.Status.AvailableReplicas}
	if foo.Status == nil || *foo.Status != status {
		foo.Status = &status
		if err := r.Status().Update(ctx, foo); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.recorder.Eventf(foo, nil, corev1.EventTypeNormal, "Synced", "Sync", "Foo synced successfully")
	return ctrl.Result{}, nil
}

// describe fills in a Foo's new Deployment.
func describe(foo *Foo, deployment *appsv1.Deployment, scheme *runtime.Scheme) error {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	deployment.Spec = appsv1.DeploymentSpec{
		Replicas: foo.Spec.Replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
		},
	}
	return ctrl.SetControllerReference(foo, deployment, scheme)
}
