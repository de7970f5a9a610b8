package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cloudv1 "cloud-manager/api/v1"
)

func (r *CloudManagerReconciler) bringFront(ctx context.Context, cm *cloudv1.CloudManager) (bool, error) {
	return r.bringDeployment(ctx, cm, "front", cm.Spec.Front.Deployment, nil)
}

func (r *CloudManagerReconciler) bringIdentity(ctx context.Context, cm *cloudv1.CloudManager) (bool, error) {
	return r.bringDeployment(ctx, cm, "identity", cm.Spec.Identity.Deployment, []string{"/bin/sh", "-c", "sleep 60m"})
}

func (r *CloudManagerReconciler) bringDeployment(ctx context.Context, cm *cloudv1.CloudManager, app string, wanted cloudv1.Workload, command []string) (bool, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name, Namespace: cm.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := labelsOf(cm, app)
		deployment.Labels = merged(deployment.Labels, labels)
		if deployment.Spec.Selector == nil {
			deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		}
		container := templateOf(&deployment.Spec.Template, labels, app)
		container.Image, container.Command = wanted.Image, command
		return ctrl.SetControllerReference(cm, deployment, r.Scheme)
	})
	if err != nil {
		return false, err
	}
	log.FromContext(ctx).V(1).Info("Deployment brought", "name", wanted.Name, "result", result)
	return ready(deployment.Spec.Replicas, deployment.Status.ReadyReplicas), nil
}

func (r *CloudManagerReconciler) bringDatabase(ctx context.Context, cm *cloudv1.CloudManager) (bool, error) {
	wanted := cm.Spec.DB.StatefulSet
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name + "auth", Namespace: cm.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data["username"], secret.Data["password"] = []byte("root"), []byte(cm.Spec.DB.RootPass)
		return ctrl.SetControllerReference(cm, secret, r.Scheme)
	}); err != nil {
		return false, err
	}

	statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name, Namespace: cm.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, statefulSet, func() error {
		labels := labelsOf(cm, "db")
		statefulSet.Labels = merged(statefulSet.Labels, labels)
		if statefulSet.Spec.Selector == nil {
			statefulSet.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		}
		container := templateOf(&statefulSet.Spec.Template, labels, "db")
		container.Image = wanted.Image
		container.Env = []corev1.EnvVar{{
			Name: "MARIADB_ROOT_PASSWORD",
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}, Key: "password",
			}},
		}}
		if statefulSet.CreationTimestamp.IsZero() {
			// The API server rejects updates of the templates.
			statefulSet.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim(wanted.Storage)}
		}
		return ctrl.SetControllerReference(cm, statefulSet, r.Scheme)
	}); err != nil {
		return false, err
	}
	return ready(statefulSet.Spec.Replicas, statefulSet.Status.ReadyReplicas), nil
}

func labelsOf(cm *cloudv1.CloudManager, app string) map[string]string {
	return map[string]string{"controller": cm.Name, "app": app}
}

func merged(into, labels map[string]string) map[string]string {
	if into == nil {
		into = map[string]string{}
	}
	for name, value := range labels {
		into[name] = value
	}
	return into
}

// templateOf labels a template and returns its container `APP-container`, which it adds if it is missing. It keeps the
// other fields, which the API server has defaulted: replacing them would be a change.
func templateOf(template *corev1.PodTemplateSpec, labels map[string]string, app string) *corev1.Container {
	template.Labels = merged(template.Labels, labels)
	name := app + "-container"
	containers := &template.Spec.Containers
	for i := range *containers {
		if (*containers)[i].Name == name {
			return &(*containers)[i]
		}
	}
	*containers = append(*containers, corev1.Container{Name: name})
	return &(*containers)[len(*containers)-1]
}

func claim(storage cloudv1.Storage) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "datadir"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &storage.Class,
			AccessModes:      storage.AccessModes,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: storage.Size},
			},
		},
	}
}

// ready reports whether more than half of the replicas are ready.
func ready(replicas *int32, readyReplicas int32) bool {
	wanted := int32(1)
	if replicas != nil {
		wanted = *replicas
	}
	return readyReplicas >= wanted/2+1
}
