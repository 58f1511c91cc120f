//! Names of files: the information of an object is the name as it is, and messages of plain sessions have URIs.

/// Information of an object: the path in a URI, decoded.
pub(super) fn information(uri: &str) -> Vec<u8> {
    let path = uri.strip_prefix("file:///").unwrap_or(uri).as_bytes();
    let mut name = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.first_chunk::<2>().filter(|_| byte == b'%');
        let escaped = digits.and_then(|&[high, low]| Some(hex(high)? << 4 | hex(low)?));
        name.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &behind[2..] } else { behind };
    }
    name
}

/// URI of a file with this information. An object without any has its number as name.
pub(super) fn uri(information: &[u8], object: u64) -> String {
    // Programs in C may send the zero behind a name.
    let name = information.split(|&byte| byte == 0).next().unwrap_or_default();
    if name.is_empty() {
        return format!("file:///object-{object}");
    }
    let mut uri = String::from("file:///");
    for &byte in name {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into())
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}
