//! Converts the object of a request for the owners of fields who wrote in other versions.

use serde_json::Value;

use super::{
    call::Call,
    versions::{Converted, ConvertedVersions},
};
use crate::{
    Api,
    object::conversion::{convert, without_owners},
    patch::{PatchError, Versions},
    registry::{Conversion, Kind},
    status::StatusError,
};

impl ConvertedVersions {
    /// Converts what was missing since the last call; returns whether anything was. If the webhook does not convert it, the next
    /// [`find`](Self::find) fails.
    ///
    /// # Errors
    /// The object changes each time it is converted.
    pub(crate) async fn convert_missing(
        &self,
        api: &Api,
        kind: &Kind,
    ) -> Result<bool, StatusError> {
        let missing = self.take_missing();
        let was_missing = !missing.is_empty();
        for (from, api_version) in missing {
            let to = match convert(api, kind, &api_version, vec![from.clone()]).await {
                Ok(to) => to.into_iter().next().unwrap_or_default(),
                Err(error) => {
                    tracing::warn!(
                        kind = kind.kind,
                        version = api_version,
                        error = error.message(),
                        "failed to convert an object for the owners of its fields"
                    );
                    self.fail(error.message());
                    return Ok(true);
                }
            };
            let converted = Converted {
                from,
                api_version,
                to,
            };
            if !self.add(converted) {
                return Err(StatusError::internal(
                    "the object changes each time it is converted",
                ));
            }
        }
        Ok(was_missing)
    }
}

impl Versions for Call {
    fn schema(&self, api_version: &str) -> Option<&Value> {
        self.target.kind.defined.as_ref()?.schema_of(api_version)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, PatchError> {
        let object = without_owners(object);
        let Some(defined) = &self.target.kind.defined else {
            return Ok(object);
        };
        if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
            return Ok(object);
        }
        if !matches!(defined.conversion, Conversion::Webhook) {
            return Ok(defined.convert_here(api_version, object));
        }
        self.versions.find(&object, api_version)
    }
}
