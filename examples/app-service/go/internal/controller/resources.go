package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	batchv1alpha1 "app-service/api/v1alpha1"
)

const port = 80

func labelsOf(app *batchv1alpha1.AppService) map[string]string {
	return map[string]string{"app": app.Name}
}

func metaOf(app *batchv1alpha1.AppService) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace, Labels: labelsOf(app)}
}

// newDeployment returns the Deployment of an AppService.
func newDeployment(app *batchv1alpha1.AppService) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metaOf(app),
		Spec: appsv1.DeploymentSpec{
			Replicas: app.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labelsOf(app)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(app)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "nginx:latest", Ports: []corev1.ContainerPort{{ContainerPort: port}},
				}}},
			},
		},
	}
}

// newService returns the Service of an AppService.
func newService(app *batchv1alpha1.AppService) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metaOf(app),
		Spec: corev1.ServiceSpec{
			Selector: labelsOf(app),
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromInt32(port)}},
		},
	}
}
