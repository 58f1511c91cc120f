//! Positions on the Earth and the delays between them.

use std::time::Duration;

/// Position in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    latitude: f64,
    longitude: f64,
}

impl Position {
    /// Position, if the latitude is from -90 to 90 degrees and the longitude from -180 to 180.
    pub fn new(latitude: f64, longitude: f64) -> Option<Self> {
        let is_on_earth = (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude);
        is_on_earth.then_some(Position { latitude, longitude })
    }

    /// Great-circle distance in kilometres (haversine formula).
    pub fn distance_km(self, other: Position) -> f64 {
        let [a, b] = [self, other].map(|at| (at.latitude.to_radians(), at.longitude.to_radians()));
        let half_sine = |x: f64, y: f64| libm::sin((x - y) / 2.0);
        let (lat, long) = (half_sine(a.0, b.0), half_sine(a.1, b.1));
        let square = lat * lat + libm::cos(a.0) * libm::cos(b.0) * long * long;
        // Rounding can exceed 1 between antipodes.
        2.0 * EARTH_RADIUS_KM * libm::asin(square.sqrt().min(1.0))
    }

    /// Propagation delay to another position, along the great circle.
    pub fn delay(self, other: Position) -> Duration {
        Duration::from_nanos((self.distance_km(other) / SPEED_KM_PER_S * 1e9).round() as u64)
    }
}

/// Mean radius of the Earth (IUGG).
const EARTH_RADIUS_KM: f64 = 6371.0088;

/// Speed of light in fibre, two thirds of the one in vacuum.
const SPEED_KM_PER_S: f64 = 2e5;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(latitude: f64, longitude: f64) -> Position {
        Position::new(latitude, longitude).expect("a position")
    }

    #[test]
    fn distances_equal_closed_forms() {
        let quarter = EARTH_RADIUS_KM * std::f64::consts::FRAC_PI_2;
        for (a, b, expected) in [
            (at(0.0, 0.0), at(0.0, 90.0), quarter),
            (at(90.0, 0.0), at(-90.0, 55.0), 2.0 * quarter),
            (at(0.0, 179.5), at(0.0, -179.5), quarter / 90.0),
            (at(48.0, 11.0), at(48.0, 11.0), 0.0),
        ] {
            let distance = a.distance_km(b);
            assert!((distance - expected).abs() < 1e-6, "{a:?} {b:?}: {distance} and not {expected}");
        }
        // New York to London, 5570 km.
        let delay = at(40.7128, -74.006).delay(at(51.5074, -0.1278)).as_secs_f64();
        assert!((delay - 5570.0 / 2e5).abs() < 1e-5, "{delay}");
    }

    #[test]
    fn positions_off_the_earth_are_refused() {
        for (latitude, longitude) in [(90.1, 0.0), (0.0, 180.1), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert_eq!(Position::new(latitude, longitude), None);
        }
    }
}
