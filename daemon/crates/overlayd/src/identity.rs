//! Reads this node's private key from a file that only its owner may read.

use std::path::Path;

use cryptoauth::PrivateKey;

/// Reads the key.
///
/// # Errors
/// The message names the file, what is wrong with it, and what is allowed.
pub fn load(path: &Path) -> Result<PrivateKey, String> {
    let key = PrivateKey::from_ed25519_seed(&*daemonkit::node_key::load(path)?);
    key.public()
        .node_address()
        .map_err(|error| format!("{}: {error}: this key cannot be a node's", path.display()))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// RFC 8410, section 10.3: the example of a private key, whose address does not begin with 0xfc.
    const EXAMPLE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";

    #[test]
    fn a_key_that_is_no_nodes_is_refused() {
        let path = std::env::temp_dir().join(format!("overlayd-test-{}.key", std::process::id()));
        fs::write(&path, EXAMPLE).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let refused = load(&path).err().unwrap();
        assert!(refused.contains("not in fc00::/8"), "{refused}");
        fs::remove_file(path).unwrap();
    }
}
