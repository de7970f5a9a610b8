//! `operetta:controller/raw`: sends raw HTTP requests, through the same gate as `objects`.

use operetta_core::gate::raw_request::RawRequest;

use super::{HostFunctions, non_empty};
use crate::bindings::operetta::controller::raw as generated;

impl generated::Host for HostFunctions<'_> {
    async fn send(&mut self, request: generated::Request) -> generated::Response {
        let generated::Request {
            method,
            path,
            query,
            content_type,
            accept,
            body,
            cached,
        } = request;

        let content_type = non_empty(content_type);
        let accept = non_empty(accept);
        let request = RawRequest {
            method,
            path,
            query,
            content_type,
            accept,
            body,
            cached,
        };

        let response = self.session().raw(request).await;
        generated::Response {
            status: response.status,
            content_type: response.content_type,
            retry_after_seconds: response.retry_after_seconds,
            body: response.body,
        }
    }
}
