//! Named random streams, so that an additional draw in one place changes no other stream.
//!
//! A path of names is hashed (BLAKE3) to the key of a ChaCha8 generator. Equal paths give equal streams on every
//! platform and in every version.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng};

use crate::NodeId;

/// Node in the tree of random streams of a run: a path of names, hashed to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds([u8; 32]);

impl Seeds {
    /// Root of a run's streams.
    pub fn new(seed: u64) -> Self {
        Seeds(*blake3::hash(&seed.to_be_bytes()).as_bytes()).child(b"run")
    }

    /// Streams of one replication of the run.
    pub fn replication(&self, number: u64) -> Seeds {
        self.child(b"replication").child(&number.to_be_bytes())
    }

    /// Streams of one node.
    pub fn node(&self, node: NodeId) -> Seeds {
        self.nodes().node(node)
    }

    /// Streams of all nodes, for callers that ask for those of many: half of the hashes are computed once.
    pub fn nodes(&self) -> NodeSeeds {
        NodeSeeds(self.child(b"node"))
    }

    /// Streams of one named part, such as a link.
    pub fn part(&self, name: &str) -> Seeds {
        self.child(b"part").child(name.as_bytes())
    }

    /// Stream of this name, from its beginning.
    pub fn stream(&self, name: &str) -> Rng {
        self.draws(name).rng()
    }

    /// Stream of this name after its first `draws` draws of 64 bits ([`Rng::bits`]). It lets a caller draw several
    /// values at a time and keep only their count instead of the generator.
    pub fn stream_from(&self, name: &str, draws: u64) -> Rng {
        let mut rng = self.stream(name);
        rng.0.set_word_pos(2 * u128::from(draws));
        rng
    }

    /// Stream of this name for callers that draw seldom.
    pub fn draws(&self, name: &str) -> Draws {
        Draws { seed: self.child(b"stream").child(name.as_bytes()), position: 0 }
    }

    fn child(&self, name: &[u8]) -> Seeds {
        Seeds(*blake3::keyed_hash(&self.0, name).as_bytes())
    }
}

/// Random streams of nodes, or of other numbered parts.
#[derive(Clone, Debug)]
pub struct NodeSeeds(Seeds);

impl NodeSeeds {
    /// Streams of one node: those of [`Seeds::node`].
    pub fn node(&self, node: NodeId) -> Seeds {
        self.0.child(&node.0.to_be_bytes())
    }
}

/// Random stream that is stored as its seed and its position, in an eighth of the room of a generator: most members of
/// a large group draw seldom. Each call computes the generator again.
#[derive(Clone, Debug)]
pub struct Draws {
    /// Seed of the generator.
    seed: Seeds,
    /// Number of 32-bit words drawn.
    position: u64,
}

impl Draws {
    /// Draws from the stream.
    pub fn with<T>(&mut self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        let mut rng = self.rng();
        rng.0.set_word_pos(self.position.into());
        let drawn = draw(&mut rng);
        // A stream has fewer words than this in any run.
        self.position = rng.0.get_word_pos() as u64;
        drawn
    }

    /// Generator of the stream, at its beginning.
    fn rng(&self) -> Rng {
        Rng(ChaCha8Rng::from_seed(self.seed.0))
    }
}

/// Random stream (ChaCha8).
#[derive(Clone, Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws uniformly from `0..bound`, without bias (Lemire 2019: multiplication with rejection).
    ///
    /// # Panics
    ///
    /// Panics if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing lies below zero");
        loop {
            // The high half of the product is the result. A low half below 2^64 mod bound is rejected, since it would
            // make some results more likely.
            let wide = u128::from(self.bits()) * u128::from(bound);
            let low = wide as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Draws 64 random bits for each element, as that many calls of [`bits`](Rng::bits) do.
    pub fn fill_bits(&mut self, draws: &mut [u64]) {
        let mut bytes = [0; 8 * DRAWS_AT_ONCE];
        for draws in draws.chunks_mut(DRAWS_AT_ONCE) {
            let bytes = &mut bytes[..8 * draws.len()];
            self.0.fill_bytes(bytes);
            for (draw, bytes) in draws.iter_mut().zip(bytes.as_chunks().0) {
                *draw = u64::from_le_bytes(*bytes);
            }
        }
    }

    /// Draws uniformly from `[0, 1)`, with 53 bits.
    pub fn unit(&mut self) -> f64 {
        Rng::unit_of(self.bits())
    }

    /// Value of [`unit`](Rng::unit) for these bits.
    #[inline]
    pub fn unit_of(bits: u64) -> f64 {
        (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Draws from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }

    /// Draws from the normal distribution with this mean and standard deviation (Box and Muller 1958).
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let bits = [self.bits(), self.bits()];
        Rng::normal_of(bits, mean, deviation)
    }

    /// Value of [`normal`](Rng::normal) for these two draws.
    #[inline]
    pub fn normal_of(bits: [u64; 2], mean: f64, deviation: f64) -> f64 {
        let [radius, angle] = bits.map(Rng::unit_of);
        let radius = libm::sqrt(-2.0 * libm::log1p(-radius));
        mean + deviation * radius * libm::cos(std::f64::consts::TAU * angle)
    }

    /// Fills the buffer with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

/// Number of draws that [`Rng::fill_bits`] makes at once: those of one step of the generator.
const DRAWS_AT_ONCE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls may draw different numbers of values.
    #[test]
    fn seldom_draws_are_those_of_the_stream() {
        let seeds = Seeds::new(1);
        let (mut stream, mut draws) = (seeds.stream("x"), seeds.draws("x"));
        for count in [1, 3, 0, 40, 1, 200, 2] {
            let expected: Vec<u64> = (0..count).map(|_| stream.bits()).collect();
            let drawn = draws.with(|rng| (0..count).map(|_| rng.bits()).collect::<Vec<u64>>());
            assert_eq!(drawn, expected);
        }
        assert_eq!(draws.with(|rng| rng.below(10)), stream.below(10));
    }

    #[test]
    fn draws_of_a_slice_equal_single_draws() {
        let seeds = Seeds::new(1);
        for (from, count) in [(0, 1), (3, 31), (5, 32), (7, 33), (1, 200)] {
            let (mut single, mut all) = (seeds.stream_from("x", from), seeds.stream_from("x", from));
            let mut draws = vec![0; count];
            all.fill_bits(&mut draws);
            assert!(draws.iter().all(|&draw| draw == single.bits()));
            assert_eq!(all.bits(), single.bits(), "both continue alike");
        }
    }
}
