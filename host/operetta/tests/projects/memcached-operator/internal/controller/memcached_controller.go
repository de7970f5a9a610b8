// Package controller has the reconciler of Memcached.
package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	cachev1alpha1 "github.com/example/memcached-operator/api/v1alpha1"
)

const (
	memcachedFinalizer = "cache.example.com/finalizer"
	typeAvailable      = "Available"
)

// MemcachedReconciler reconciles a Memcached object.
type MemcachedReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete

// Reconcile brings the Deployment of a Memcached to the size in its spec.
func (r *MemcachedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)

	memcached := &cachev1alpha1.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !memcached.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(memcached, memcachedFinalizer) {
			log.Info("Cleaning up")
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, memcached))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(memcached, memcachedFinalizer) {
		if err := r.Update(ctx, memcached); err != nil {
			return ctrl.Result{}, err
		}
	}

	found := &appsv1.Deployment{}
	err := r.Get(ctx, req.NamespacedName, found)
	switch {
	case apierrors.IsNotFound(err):
		deployment, err := r.deploymentFor(memcached)
		if err != nil {
			return ctrl.Result{}, err
		}
		log.Info("Creating the Deployment")
		if err := r.Create(ctx, deployment); err != nil {
			return ctrl.Result{}, err
		}
		r.Recorder.Eventf(memcached, deployment, corev1.EventTypeNormal, "Created", "Create", "Created the Deployment")
	case err != nil:
		return ctrl.Result{}, err
	case *found.Spec.Replicas != memcached.Spec.Size:
		found.Spec.Replicas = &memcached.Spec.Size
		if err := r.Update(ctx, found); err != nil {
			return ctrl.Result{}, err
		}
	}
	meta.SetStatusCondition(&memcached.Status.Conditions, metav1.Condition{
		Type: typeAvailable, Status: metav1.ConditionTrue, Reason: "Reconciled", Message: "The Deployment exists",
	})
	return ctrl.Result{}, r.Status().Update(ctx, memcached)
}

func (r *MemcachedReconciler) deploymentFor(memcached *cachev1alpha1.Memcached) (*appsv1.Deployment, error) {
	labels := map[string]string{"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": memcached.Name}
	container := corev1.Container{Name: "memcached", Image: "memcached:1.6.26-alpine3.19"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: memcached.Name, Namespace: memcached.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &memcached.Spec.Size,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
			},
		},
	}
	return deployment, ctrl.SetControllerReference(memcached, deployment, r.Scheme)
}

// SetupWithManager sets up the controller with the Manager.
func (r *MemcachedReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&cachev1alpha1.Memcached{}).
		Owns(&appsv1.Deployment{}).
		Named("memcached").
		Complete(r)
}
