//! Authentication and authorization: tokens, impersonation, RBAC and the access reviews.
