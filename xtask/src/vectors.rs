//! Makes random messages with Kafka's own classes and holds the codec to them.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::files;

/// The Maven goal that lists the jars, with its version, so that every run does the same.
const CLASSPATH: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath";

/// Makes `count` messages of each version of the schemas that `which` names, and checks them.
pub(crate) fn run(which: &str, count: &str, seed: Option<&str>) -> Result<(), Failure> {
    let folder = files::root().join("target/vectors");
    files::create_folder(&folder)?;
    let source = files::root().join("tests/java/vectors");
    let jars = folder.join("classpath");
    files::run(
        Command::new("mvn")
            .args(["--batch-mode", "--quiet", "-Dstyle.color=never", "--file"])
            .arg(source.join("pom.xml"))
            .arg(CLASSPATH)
            .arg(format!("-Dmdep.outputFile={}", jars.display())),
    )?;
    let seed = seed.map_or_else(seed_of_now, str::to_owned);
    let vectors = folder.join("fresh.tsv");
    println!("seed {seed}");
    files::run(
        Command::new("java")
            .arg("-cp")
            .arg(files::read(&jars)?.trim())
            .arg(source.join("Vectors.java"))
            .args([which, count, &seed])
            .arg(&vectors),
    )?;
    files::run(
        Command::new("cargo")
            .args(["run", "--quiet", "--package", "sharemark-protocol", "--example", "check_vectors", "--"])
            .arg(&vectors)
            .current_dir(files::root()),
    )
}

fn seed_of_now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string()
}
