//! Generates names: `metadata.generateName` and a random suffix.

/// The characters of generated names: no vowels and nothing that reads like another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many characters are appended to `generateName`.
const SUFFIX: usize = 5;

/// The longest generated name, the suffix included.
const LONGEST: usize = 63;

/// Returns a name with this prefix that is almost certainly unused.
pub fn generate_name(prefix: &str) -> String {
    let random = clock::rng();
    let kept = prefix.chars().take(LONGEST - SUFFIX);
    let suffix = (0..SUFFIX).filter_map(|_| ALPHABET.get(random.random_range(0..ALPHABET.len())));
    kept.chain(suffix.map(|byte| char::from(*byte))).collect()
}
