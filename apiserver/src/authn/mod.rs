//! Authentication: who sends a request, by a static token or the token of a ServiceAccount.
//!
//! [`authenticate`] turns the `Authorization` header into a [`user::User`]. The server signs tokens
//! ([`signing`], [`token_request`]) and answers questions about them ([`token_review`]).

pub mod authenticate;
pub mod signing;
pub mod token_claims;
pub mod token_request;
pub mod token_review;
pub mod user;
