//! `operetta:controller/objects` (and `types`): turns each function into one operation of the gate.

use operetta_core::{
    gate::operation::{
        Delete, DeleteOptions, Get, List, ListOptions, Page, PatchBody, Propagation, Read,
        Selection, Write, WriteAction, WriteOptions,
    },
    object::{ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind},
};

use super::{HostFunctions, non_empty};
use crate::bindings::operetta::controller::{objects as generated, types};

impl HostFunctions<'_> {
    /// Converts a page. If it exceeds the guest's memory, refuses it before anything is copied.
    fn page(&self, page: Page) -> Result<generated::Page, types::Error> {
        let bytes = page
            .items
            .iter()
            .map(|item| item.json().len())
            .sum::<usize>();
        let limit = self.data.memory_limit();
        if bytes <= limit {
            return Ok(page.into());
        }

        Err(ApiError::too_large(format!(
            "the list has {bytes} bytes, over the plugin's memory limit of {limit} bytes (limits.memory): ask for pages \
             (limit), or for fewer fields (projection)"
        ))
        .into())
    }

    async fn write(
        &mut self,
        kind: types::GroupVersionKind,
        action: WriteAction,
        options: generated::WriteOptions,
    ) -> Result<String, types::Error> {
        let write = Write {
            kind: kind.into(),
            action,
            options: options.into(),
        };
        Ok(self.session().write(write).await?.json().to_owned())
    }
}

impl generated::Host for HostFunctions<'_> {
    async fn get(
        &mut self,
        kind: types::GroupVersionKind,
        key: types::ObjectKey,
        read: generated::Read,
    ) -> Result<String, types::Error> {
        let get = Get {
            kind: kind.into(),
            key: key.into(),
            read: read.into(),
        };
        Ok(self.session().get(get).await?.json().to_owned())
    }

    async fn list(
        &mut self,
        kind: types::GroupVersionKind,
        options: generated::ListOptions,
    ) -> Result<generated::Page, types::Error> {
        let list = List {
            kind: kind.into(),
            options: options.into(),
        };
        let page = self.session().list(list).await?;
        self.page(page)
    }

    async fn create(
        &mut self,
        kind: types::GroupVersionKind,
        namespace: Option<String>,
        object: String,
        options: generated::WriteOptions,
    ) -> Result<String, types::Error> {
        self.write(
            kind,
            WriteAction::Create {
                namespace: non_empty(namespace),
                object,
            },
            options,
        )
        .await
    }

    async fn update(
        &mut self,
        kind: types::GroupVersionKind,
        key: types::ObjectKey,
        object: String,
        options: generated::WriteOptions,
    ) -> Result<String, types::Error> {
        self.write(
            kind,
            WriteAction::Update {
                key: key.into(),
                status: false,
                object,
            },
            options,
        )
        .await
    }

    async fn update_status(
        &mut self,
        kind: types::GroupVersionKind,
        key: types::ObjectKey,
        object: String,
        options: generated::WriteOptions,
    ) -> Result<String, types::Error> {
        self.write(
            kind,
            WriteAction::Update {
                key: key.into(),
                status: true,
                object,
            },
            options,
        )
        .await
    }

    async fn patch(
        &mut self,
        kind: types::GroupVersionKind,
        key: types::ObjectKey,
        subresource: Option<String>,
        body: generated::PatchBody,
        force: bool,
        options: generated::WriteOptions,
    ) -> Result<String, types::Error> {
        let action = WriteAction::Patch {
            key: key.into(),
            subresource: non_empty(subresource),
            body: body.into(),
            force,
        };
        self.write(kind, action, options).await
    }

    async fn delete(
        &mut self,
        kind: types::GroupVersionKind,
        key: types::ObjectKey,
        options: generated::DeleteOptions,
    ) -> Result<(), types::Error> {
        let delete = Delete {
            kind: kind.into(),
            key: key.into(),
            options: options.into(),
        };
        Ok(self.session().delete(delete).await?)
    }
}

impl types::Host for HostFunctions<'_> {}

impl From<types::GroupVersionKind> for GroupVersionKind {
    fn from(kind: types::GroupVersionKind) -> Self {
        Self {
            api_version: kind.api_version,
            kind: kind.kind,
        }
    }
}

impl From<types::ObjectKey> for ObjectKey {
    fn from(key: types::ObjectKey) -> Self {
        Self {
            namespace: non_empty(key.namespace),
            name: key.name,
        }
    }
}

impl From<generated::Read> for Read {
    fn from(read: generated::Read) -> Self {
        match read {
            generated::Read::Cached => Self::Cached,
            generated::Read::Live => Self::Live,
        }
    }
}

impl From<generated::ListOptions> for ListOptions {
    fn from(options: generated::ListOptions) -> Self {
        Self {
            namespace: non_empty(options.namespace),
            labels: non_empty(options.labels),
            fields: non_empty(options.fields),
            selection: match options.selection {
                generated::Selection::All => Selection::All,
                generated::Selection::ByIndex((name, value)) => Selection::ByIndex { name, value },
                generated::Selection::ByOwner(uid) => Selection::ByOwner(uid),
            },
            limit: options.limit,
            continue_token: non_empty(options.continue_token),
            read: options.read.into(),
            projection: options.projection,
        }
    }
}

impl From<Page> for generated::Page {
    fn from(page: Page) -> Self {
        Self {
            items: page
                .items
                .iter()
                .map(|item| item.json().to_owned())
                .collect(),
            resource_version: page.resource_version,
            continue_token: page.continue_token,
        }
    }
}

impl From<generated::WriteOptions> for WriteOptions {
    fn from(options: generated::WriteOptions) -> Self {
        Self {
            dry_run: options.dry_run,
            field_manager: non_empty(options.field_manager),
            strict: options.strict,
        }
    }
}

impl From<generated::PatchBody> for PatchBody {
    fn from(body: generated::PatchBody) -> Self {
        match body {
            generated::PatchBody::Merge(text) => Self::Merge(text),
            generated::PatchBody::Json(text) => Self::Json(text),
            generated::PatchBody::Apply(text) => Self::Apply(text),
        }
    }
}

impl From<generated::DeleteOptions> for DeleteOptions {
    fn from(options: generated::DeleteOptions) -> Self {
        Self {
            uid: non_empty(options.uid),
            resource_version: non_empty(options.resource_version),
            grace_period_seconds: options.grace_period_seconds,
            propagation: options.propagation.map(|propagation| match propagation {
                generated::Propagation::Background => Propagation::Background,
                generated::Propagation::Foreground => Propagation::Foreground,
                generated::Propagation::Orphan => Propagation::Orphan,
            }),
            dry_run: options.dry_run,
        }
    }
}

impl From<ApiError> for types::Error {
    fn from(error: ApiError) -> Self {
        let variant = match error.kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::AlreadyExists => Self::AlreadyExists,
            ErrorKind::Conflict => Self::Conflict,
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::BadRequest => Self::BadRequest,
            ErrorKind::Forbidden => Self::Forbidden,
            ErrorKind::Expired => Self::Expired,
            ErrorKind::TooManyRequests => Self::TooManyRequests,
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Other => Self::Other,
        };

        let status = error.status;
        let causes = status.causes.into_iter();
        variant(types::Status {
            code: status.code,
            reason: status.reason,
            message: status.message,
            causes: causes
                .map(|cause| types::Cause {
                    reason: cause.reason,
                    message: cause.message,
                    field: cause.field,
                })
                .collect(),
            retry_after_seconds: status.retry_after_seconds,
        })
    }
}
