//! Checksum of Stanford GraphBase files (Knuth, *The Stanford GraphBase*, GB_IO).

/// Checksum of lines: each character doubles it and adds its code, modulo a prime.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checksum(u64);

impl Checksum {
    /// Adds a line without its end. Blanks before the end do not count, the end itself does.
    pub(super) fn add_line(&mut self, line: &str) {
        for byte in line.trim_end_matches(' ').bytes().chain([b'\n']) {
            self.0 = (2 * self.0 + u64::from(CODES[usize::from(byte)])) % PRIME;
        }
    }

    /// Checksum of the lines so far.
    pub(super) fn value(self) -> u64 {
        self.0
    }
}

/// Largest prime number below 2^30.
const PRIME: u64 = (1 << 30) - 83;

/// Code of each character: its position in [`CHARACTERS`], or the code of unexpected ones.
const CODES: [u8; 256] = {
    let mut codes = [127; 256];
    let mut at = 0;
    while at < CHARACTERS.len() {
        codes[CHARACTERS[at] as usize] = at as u8;
        at += 1;
    }
    codes
};

/// Characters of GraphBase files.
const CHARACTERS: &[u8; 96] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_^~&@,;.:?!%#$+-*/|\\<=>()[]{}`'\" \n";

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(lines: &[&str]) -> u64 {
        let mut checksum = Checksum::default();
        lines.iter().for_each(|line| checksum.add_line(line));
        checksum.value()
    }

    #[test]
    fn each_character_doubles_the_sum_and_adds_its_code() {
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[""]), 95, "the end of a line has the last code");
        assert_eq!(sum(&["1"]), 2 + 95);
        assert_eq!(sum(&["Az"]), 4 * 10 + 2 * 61 + 95);
        assert_eq!(sum(&["\t"]), 2 * 127 + 95, "a character without a code of its own");
        assert_eq!(sum(&["1", "1"]), 4 * (2 + 95) + 2 + 95);
        assert_eq!(sum(&["1  "]), sum(&["1"]), "blanks at the end do not count");
    }

    #[test]
    fn the_sum_is_taken_modulo_the_prime() {
        // Forty zeros after a one shift it by forty binary places: 2^41 + 95, less a multiple of the prime.
        let line = format!("1{}", "0".repeat(40));
        assert_eq!(sum(&[&line]), ((1_u64 << 41) + 95) % 1_073_741_741);
    }
}
