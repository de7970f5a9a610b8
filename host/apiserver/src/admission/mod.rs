//! Admission of writes: ValidatingAdmissionPolicies, and the admission that is built into kube-apiserver.
