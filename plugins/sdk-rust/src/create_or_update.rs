//! Create-or-update: brings one object to its desired state, and writes only if something changes.

use crate::context::found;
use crate::json::{semantically_equal, to_string};
use crate::options::Read;
use crate::{Context, Error, Object};

/// The outcome of [`Context::create_or_update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationResult {
    /// The object did not exist and was created.
    Created,
    /// The object was changed.
    Updated,
    /// The object had its desired state; nothing was written.
    Unchanged,
}

impl Context {
    /// Reads the object with the key of `object`, calls `mutate`, and creates or updates the object
    /// if `mutate` changed it (controller-runtime's `CreateOrUpdate`). Returns the object as
    /// stored.
    ///
    /// `mutate` gets the stored object, or `object` itself if none is stored. It should set only
    /// the fields that it manages, and no values that the API server rewrites: a Deployment with
    /// `None` replicas gets the default of 1, and is written again at each reconcile. An absent
    /// field, `null` and an empty list or map are equal.
    ///
    /// The status is not written. A write loses the fields that the type does not have.
    ///
    /// ```
    /// use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
    /// use operetta_sdk::testing::Cluster;
    /// use operetta_sdk::{OperationResult, object_meta};
    ///
    /// let ctx = Cluster::new().context();
    /// let map = ConfigMap { metadata: object_meta(("shop", "contact")), ..ConfigMap::default() };
    /// let (_, result) = ctx.create_or_update(map, |map| {
    ///     map.data.get_or_insert_default().insert("team".to_owned(), "red".to_owned());
    ///     Ok(())
    /// })?;
    /// assert_eq!(result, OperationResult::Created);
    /// # Ok::<(), operetta_sdk::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of `mutate` and of the API server: a conflict if the object is newer than
    /// the cache.
    pub fn create_or_update<T: Object>(
        &self,
        mut object: T,
        mutate: impl FnOnce(&mut T) -> Result<(), Error>,
    ) -> Result<(T, OperationResult), Error> {
        let kind = object.group_version_kind();
        let key = object.key();
        let unchanged_key = |object: &T| match object.key() == key {
            true => Ok(()),
            false => Err(Error::terminal(format!(
                "create_or_update: {kind} {key} became {}",
                object.key()
            ))),
        };

        let Some(mut stored) = found(self.read::<T>(&kind, &key, Read::Cached))? else {
            mutate(&mut object)?;
            unchanged_key(&object)?;
            return Ok((self.create(&object)?, OperationResult::Created));
        };

        let before = to_string(&stored)?;
        mutate(&mut stored)?;
        unchanged_key(&stored)?;

        if semantically_equal(&stored, &before)? {
            return Ok((stored, OperationResult::Unchanged));
        }

        Ok((self.update(&stored)?, OperationResult::Updated))
    }
}
