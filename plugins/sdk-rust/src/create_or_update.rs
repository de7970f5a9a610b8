//! Create-or-update: bring one object to its desired state and write only if something is to change.

use crate::context::found;
use crate::json::means_the_same;
use crate::options::Read;
use crate::{Context, Error, Object};

/// What [`Context::create_or_update`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationResult {
    /// The object did not exist and was created.
    Created,
    /// The object was changed.
    Updated,
    /// The object was as it should be; nothing was written.
    Unchanged,
}

impl Context {
    /// Reads the object that has `object`'s key, lets `mutate` set what should be, and creates or updates it if that
    /// made a difference (controller-runtime's `CreateOrUpdate`). Returns the object as stored.
    ///
    /// `mutate` gets the stored object, or `object` itself if there is none yet. It should set only the fields it cares
    /// for, and not to values that the API server will rewrite: to set a Deployment's replicas to `None` is to find 1
    /// there the next time and write again. An absent field, `null` and an empty list or map do not differ.
    ///
    /// The status is not written; fields that the type does not know are lost if something is.
    ///
    /// # Errors
    /// Those of `mutate` and of the API server: a conflict if the object has changed since the cache saw it.
    pub fn create_or_update<T: Object>(
        &self,
        mut object: T,
        mutate: impl FnOnce(&mut T) -> Result<(), Error>,
    ) -> Result<(T, OperationResult), Error> {
        let (kind, key) = (object.group_version_kind(), object.key());
        let unchanged_key = |object: &T| match object.key() == key {
            true => Ok(()),
            false => Err(Error::terminal(format!("create_or_update: {kind} {key} became {}", object.key()))),
        };
        let Some(mut stored) = found(self.read::<T>(&kind, &key, Read::Cached))? else {
            mutate(&mut object)?;
            unchanged_key(&object)?;
            return Ok((self.create(&object)?, OperationResult::Created));
        };
        let before = serde_json::to_string(&stored)?;
        mutate(&mut stored)?;
        unchanged_key(&stored)?;
        if means_the_same(&stored, &before)? {
            return Ok((stored, OperationResult::Unchanged));
        }
        Ok((self.update(&stored)?, OperationResult::Updated))
    }
}
