// app-service as an Operetta plugin: a kubebuilder project with unchanged api/ and internal/. Only this file is
// specific to the plugin.
package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	batchv1alpha1 "app-service/api/v1alpha1"
	"app-service/internal/controller"

	"operetta.dev/sdk-go/controllerruntime"
)

var options = controllerruntime.Options{
	AddToScheme:  []controllerruntime.AddToScheme{batchv1alpha1.AddToScheme},
	OwnNamespace: true,
}

func init() { controllerruntime.Run(setup, options) }

func main() {}

func setup(mgr ctrl.Manager) error {
	return (&controller.AppServiceReconciler{
		Client: mgr.GetClient(),
		Scheme: mgr.GetScheme(),
	}).SetupWithManager(mgr)
}
