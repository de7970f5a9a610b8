//! The key that signs the tokens of ServiceAccounts, and JSON Web Tokens with ES256.

use std::num::NonZeroUsize;

use base64::{
    Engine, alphabet,
    engine::{
        GeneralPurpose,
        general_purpose::{NO_PAD, URL_SAFE_NO_PAD},
    },
};
use lru::LruCache;
use parking_lot::Mutex;
use ring::{
    digest,
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, KeyPair, UnparsedPublicKey},
};
use serde_json::{Value, json};
use thiserror::Error;

/// The DER encoding of a P-256 public key, up to the point.
const PUBLIC_KEY_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const COORDINATE: usize = 32;
/// The tokens whose claims are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Base64 as Go decodes it, which ignores the bits of the last character that belong to no byte.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    NO_PAD.with_decode_allow_trailing_bits(true),
);

/// An error of the cryptography library: its source of randomness failed.
#[derive(Debug, Error)]
#[error("failed to {0}")]
pub struct SigningError(&'static str);

/// An ECDSA key on the curve P-256.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    id: String,
    /// The claims of tokens that this key has signed. A signature costs more than the rest of a
    /// request.
    verified: Mutex<LruCache<String, Value>>,
}

impl SigningKey {
    /// Generates a key.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn generate() -> Result<Self, SigningError> {
        let random = SystemRandom::new();
        let algorithm = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random)
            .map_err(|_| SigningError("generate a key"))?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random)
            .map_err(|_| SigningError("read the generated key"))?;
        let mut encoded = PUBLIC_KEY_PREFIX.to_vec();

        encoded.extend_from_slice(pair.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &encoded));
        Ok(Self {
            pair,
            random,
            id,
            verified: Mutex::new(LruCache::new(REMEMBERED)),
        })
    }

    /// Returns the ID of the key: the hash of the public key, as kube-apiserver derives it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the public key as a JSON Web Key Set, the document `/openid/v1/jwks`.
    pub fn key_set(&self) -> Value {
        // An uncompressed point: 4, x, y.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(COORDINATE);
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]})
    }

    /// Signs claims as a JSON Web Token.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn sign(&self, claims: &Value) -> Result<String, SigningError> {
        let header = json!({"alg": "ES256", "kid": self.id});
        let encode = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let message = format!("{}.{}", encode(&header), encode(claims));
        let signature = self
            .pair
            .sign(&self.random, message.as_bytes())
            .map_err(|_| SigningError("sign a token"))?;

        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Reads the claims of a token that this key may have signed. A token that is no JSON Web
    /// Token, or whose issuer is another, is None.
    ///
    /// # Errors
    /// Returns kube-apiserver's message if the token names another key, or its signature is wrong.
    pub fn verify(&self, token: &str, issuer: &str) -> Result<Option<Value>, &'static str> {
        if let Some(claims) = self.verified.lock().get(token) {
            return Ok((claims["iss"] == issuer).then(|| claims.clone()));
        }

        let parts: Vec<&str> = token.split('.').collect();
        let [header, payload, signature] = parts.as_slice() else {
            return Ok(None);
        };
        let Some(claims) = decode_json(payload).filter(|claims| claims["iss"] == issuer) else {
            return Ok(None);
        };
        let (Some(header), Ok(signature)) = (decode_json(header), LENIENT.decode(signature)) else {
            return Ok(None);
        };

        if header["kid"]
            .as_str()
            .is_some_and(|id| !id.is_empty() && id != self.id)
        {
            return Err("invalid signature, no keys found");
        }

        let message = &token[..token.len() - parts[2].len() - 1];
        let key = UnparsedPublicKey::new(
            &signature::ECDSA_P256_SHA256_FIXED,
            self.pair.public_key().as_ref(),
        );
        if header["alg"] != "ES256" || key.verify(message.as_bytes(), &signature).is_err() {
            return Err("go-jose/go-jose: error in cryptographic primitive");
        }

        self.verified.lock().put(token.to_owned(), claims.clone());

        Ok(Some(claims))
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SigningKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

fn decode_json(part: &str) -> Option<Value> {
    serde_json::from_slice(&LENIENT.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_verifies_only_its_own_tokens() {
        let (key, other) = (
            SigningKey::generate().expect("a key"),
            SigningKey::generate().expect("a key"),
        );
        let token = key
            .sign(&json!({"iss": "me", "sub": "x"}))
            .expect("a token");
        // The second time from memory.
        for _ in 0..2 {
            assert_eq!(
                key.verify(&token, "me"),
                Ok(Some(json!({"iss": "me", "sub": "x"})))
            );
            assert_eq!(key.verify(&token, "you"), Ok(None));
        }
        assert_eq!(
            other.verify(&token, "me"),
            Err("invalid signature, no keys found")
        );
        for broken in ["", "a.b", "a.b.c", "a.b.c.d", "..", &token[1..]] {
            assert_eq!(key.verify(broken, "me"), Ok(None), "{broken}");
        }
        let (head, signature) = token.rsplit_once('.').expect("three parts");
        let mut signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
        signature[7] ^= 1;
        let forged = format!("{head}.{}", URL_SAFE_NO_PAD.encode(signature));
        // The last character of a signature has four bits that belong to no byte; Kubernetes does
        // not look at them.
        for forged in [forged, format!("{head}.{}B", "A".repeat(85))] {
            assert_eq!(
                key.verify(&forged, "me"),
                Err("go-jose/go-jose: error in cryptographic primitive"),
                "{forged}"
            );
        }
    }

    #[test]
    fn token_without_signature_is_refused() {
        let key = SigningKey::generate().expect("a key");
        let encode = |json: Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let token = format!(
            "{}.{}.",
            encode(json!({"alg": "none"})),
            encode(json!({"iss": "me"}))
        );
        assert!(key.verify(&token, "me").is_err());
    }
}
