package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CloudManagerSpec defines the desired state of CloudManager.
type CloudManagerSpec struct {
	// Front is the front end.
	Front Service `json:"front"`
	// Identity is the identity service, brought up after the front end.
	Identity Service `json:"identity"`
	// DB is the database, brought up last.
	DB Database `json:"db"`
}

// Service is a part that runs as a Deployment.
type Service struct {
	// Deployment runs it.
	Deployment Workload `json:"deployment"`
}

// Workload is a Deployment's name and image.
type Workload struct {
	// Name of the Deployment.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Image of its container.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
}

// Database is a StatefulSet and the password of its root user.
type Database struct {
	// StatefulSet runs it.
	StatefulSet StatefulWorkload `json:"statefulSet"`
	// RootPass is the root user's password.
	// +kubebuilder:validation:MinLength=1
	RootPass string `json:"rootPass"`
}

// StatefulWorkload is a StatefulSet's name, image and storage.
type StatefulWorkload struct {
	// Name of the StatefulSet.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Image of its container.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Storage of each replica. It counts when the StatefulSet is created; Kubernetes does not let it change.
	Storage Storage `json:"storage"`
}

// Storage is what a volume claim asks for.
type Storage struct {
	// Class is the StorageClass.
	Class string `json:"class"`
	// AccessModes of the volume.
	// +kubebuilder:validation:MinItems=1
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes"`
	// Size of the volume.
	Size resource.Quantity `json:"size"`
}

// CloudManagerStatus defines the observed state of CloudManager.
type CloudManagerStatus struct {
	// Phase is `ready` once every part is.
	// +optional
	Phase string `json:"phase,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// CloudManager wants a front end, an identity service and a database.
type CloudManager struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec   CloudManagerSpec   `json:"spec"`
	Status CloudManagerStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// CloudManagerList contains a list of CloudManager.
type CloudManagerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloudManager `json:"items"`
}

func init() {
	SchemeBuilder.Register(&CloudManager{}, &CloudManagerList{})
}
