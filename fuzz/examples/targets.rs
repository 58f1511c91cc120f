//! Lists the names of the fuzz targets.

fn main() {
    for target in carillon_fuzz::targets::targets() {
        println!("{}", target.name);
    }
}
