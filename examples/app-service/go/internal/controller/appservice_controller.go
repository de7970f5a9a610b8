// Package controller has the reconciler of AppService.
package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	batchv1alpha1 "app-service/api/v1alpha1"
)

// specAnnotation is the annotation with the spec that the children were made from, as JSON.
const specAnnotation = "spec"

// AppServiceReconciler reconciles an AppService object.
type AppServiceReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=batch.example.com,resources=appservices,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=batch.example.com,resources=appservices/status,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;update

// Reconcile brings the Deployment and the Service of an AppService to the state in its spec.
func (r *AppServiceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	logger := log.FromContext(ctx)

	app := &batchv1alpha1.AppService{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if app.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}

	changed, err := specChanged(app)
	if err != nil {
		return ctrl.Result{}, err
	}

	deployment := &appsv1.Deployment{}
	switch err := r.Get(ctx, req.NamespacedName, deployment); {
	case errors.IsNotFound(err):
		deployment = newDeployment(app)
		if err := ctrl.SetControllerReference(app, deployment, r.Scheme); err != nil {
			return ctrl.Result{}, err
		}
		logger.Info("Creating the Deployment", "replicas", *app.Spec.Replicas)
		if err := r.Create(ctx, deployment); err != nil {
			return ctrl.Result{}, err
		}
	case err != nil:
		return ctrl.Result{}, err
	case !metav1.IsControlledBy(deployment, app):
		return ctrl.Result{}, notOurs(app, "Deployment")
	case changed:
		deployment.Spec = newDeployment(app).Spec
		if err := r.Update(ctx, deployment); err != nil {
			return ctrl.Result{}, err
		}
	}

	service := &corev1.Service{}
	switch err := r.Get(ctx, req.NamespacedName, service); {
	case errors.IsNotFound(err):
		service = newService(app)
		if err := ctrl.SetControllerReference(app, service, r.Scheme); err != nil {
			return ctrl.Result{}, err
		}
		logger.Info("Creating the Service")
		if err := r.Create(ctx, service); err != nil {
			return ctrl.Result{}, err
		}
	case err != nil:
		return ctrl.Result{}, err
	case !metav1.IsControlledBy(service, app):
		return ctrl.Result{}, notOurs(app, "Service")
	case changed:
		// The API server assigned the address, which cannot change.
		spec := newService(app).Spec
		spec.ClusterIP, spec.ClusterIPs = service.Spec.ClusterIP, service.Spec.ClusterIPs
		service.Spec = spec
		if err := r.Update(ctx, service); err != nil {
			return ctrl.Result{}, err
		}
	}

	if changed {
		spec, err := json.Marshal(app.Spec)
		if err != nil {
			return ctrl.Result{}, err
		}
		if app.Annotations == nil {
			app.Annotations = map[string]string{}
		}
		app.Annotations[specAnnotation] = string(spec)
		if err := r.Update(ctx, app); err != nil {
			return ctrl.Result{}, err
		}
	}

	if app.Status.AvailableReplicas != deployment.Status.AvailableReplicas {
		app.Status.AvailableReplicas = deployment.Status.AvailableReplicas
		if err := r.Status().Update(ctx, app); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

func notOurs(app *batchv1alpha1.AppService, kind string) error {
	return fmt.Errorf("AppService %s/%s: a %s of this name exists that it does not control", app.Namespace, app.Name, kind)
}

// specChanged reports whether the spec differs from the one in the annotation.
func specChanged(app *batchv1alpha1.AppService) (bool, error) {
	kept, found := app.Annotations[specAnnotation]
	if !found {
		return true, nil
	}
	var old batchv1alpha1.AppServiceSpec
	if err := json.Unmarshal([]byte(kept), &old); err != nil {
		return false, fmt.Errorf("AppService %s/%s: the annotation %q is not JSON of a spec; remove it: %w", app.Namespace, app.Name, specAnnotation, err)
	}
	return !reflect.DeepEqual(old, app.Spec), nil
}

// SetupWithManager sets up the controller with the Manager.
func (r *AppServiceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&batchv1alpha1.AppService{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
}
