// Package controller has the reconciler of CloudManager.
package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cloudv1 "cloud-manager/api/v1"
)

const (
	// ownerKey is the index of children by the name of the CloudManager that controls them.
	ownerKey = ".metadata.controller"

	phaseReady = "ready"
)

// CloudManagerReconciler reconciles a CloudManager object.
type CloudManagerReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder record.EventRecorder
}

// +kubebuilder:rbac:groups=cloudmanagercontroller.huayun.com,resources=cloudmanagers,verbs=get;list;watch
// +kubebuilder:rbac:groups=cloudmanagercontroller.huayun.com,resources=cloudmanagers/status,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch

// Reconcile starts the parts of a CloudManager one after the other. If a part is not ready yet, it returns with a
// requeue.
func (r *CloudManagerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	logger := log.FromContext(ctx)

	cm := &cloudv1.CloudManager{}
	if err := r.Get(ctx, req.NamespacedName, cm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cm.DeletionTimestamp != nil {
		// The garbage collector deletes its children.
		return ctrl.Result{}, nil
	}

	if err := r.cleanupOwnedResources(ctx, cm); err != nil {
		return ctrl.Result{}, fmt.Errorf("cleaning up: %w", err)
	}

	for _, step := range []struct {
		name  string
		bring func(context.Context, *cloudv1.CloudManager) (ready bool, err error)
	}{
		{"front", r.bringFront},
		{"identity", r.bringIdentity},
		{"db", r.bringDatabase},
	} {
		ready, err := step.bring(ctx, cm)
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("%s: %w", step.name, err)
		}
		if !ready {
			logger.Info("Not ready yet", "step", step.name)
			return ctrl.Result{Requeue: true}, nil
		}
	}

	if cm.Status.Phase != phaseReady {
		cm.Status.Phase = phaseReady
		if err := r.Status().Update(ctx, cm); err != nil {
			return ctrl.Result{}, err
		}
		r.Recorder.Eventf(cm, corev1.EventTypeNormal, "Updated", "Update cm.status.phase: %s", cm.Status.Phase)
	}
	return ctrl.Result{}, nil
}

// cleanupOwnedResources deletes the Deployments and StatefulSets of this CloudManager that its spec no longer names.
func (r *CloudManagerReconciler) cleanupOwnedResources(ctx context.Context, cm *cloudv1.CloudManager) error {
	owned := []client.ListOption{client.InNamespace(cm.Namespace), client.MatchingFields{ownerKey: cm.Name}}

	var deployments appsv1.DeploymentList
	if err := r.List(ctx, &deployments, owned...); err != nil {
		return err
	}
	for i := range deployments.Items {
		name := deployments.Items[i].Name
		if name == cm.Spec.Front.Deployment.Name || name == cm.Spec.Identity.Deployment.Name {
			continue
		}
		if err := r.cleanup(ctx, cm, "deployment", &deployments.Items[i]); err != nil {
			return err
		}
	}

	var statefulSets appsv1.StatefulSetList
	if err := r.List(ctx, &statefulSets, owned...); err != nil {
		return err
	}
	for i := range statefulSets.Items {
		if statefulSets.Items[i].Name == cm.Spec.DB.StatefulSet.Name {
			continue
		}
		if err := r.cleanup(ctx, cm, "statefulset", &statefulSets.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *CloudManagerReconciler) cleanup(ctx context.Context, cm *cloudv1.CloudManager, kind string, child client.Object) error {
	if child.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := r.Delete(ctx, child); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Recorder.Eventf(cm, corev1.EventTypeNormal, "Deleted", "Deleted %s %q", kind, child.GetName())
	return nil
}

// SetupWithManager sets up the controller with the Manager.
func (r *CloudManagerReconciler) SetupWithManager(mgr ctrl.Manager) error {
	controllerName := func(object client.Object) []string {
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.APIVersion != cloudv1.GroupVersion.String() || owner.Kind != "CloudManager" {
			return nil
		}
		return []string{owner.Name}
	}
	for _, child := range []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), child, ownerKey, controllerName); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&cloudv1.CloudManager{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
}
