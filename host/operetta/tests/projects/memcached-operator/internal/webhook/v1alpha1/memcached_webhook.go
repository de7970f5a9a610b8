// Package v1alpha1 has the webhooks of Memcached.
package v1alpha1

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	cachev1alpha1 "github.com/example/memcached-operator/api/v1alpha1"
)

// SetupMemcachedWebhookWithManager registers the webhook for Memcached in the manager.
func SetupMemcachedWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &cachev1alpha1.Memcached{}).WithDefaulter(&MemcachedCustomDefaulter{}).Complete()
}

// MemcachedCustomDefaulter sets the defaults of a Memcached.
type MemcachedCustomDefaulter struct{}

// Default sets the size.
func (d *MemcachedCustomDefaulter) Default(_ context.Context, memcached *cachev1alpha1.Memcached) error {
	if memcached.Spec.Size == 0 {
		memcached.Spec.Size = 1
	}
	return nil
}
