//! Lists the fuzz targets.

fn main() {
    for target in carillon_fuzz::targets::targets() {
        println!("{}", target.name);
    }
}
