use super::*;

fn serve_options(args: &[&str]) -> Result<ServeOptions, clap::Error> {
    let args = ["sharemark"].iter().chain(args);
    Cli::try_parse_from(args).map(|cli| match cli.command {
        Some(Command::Serve(options)) => *options,
        Some(Command::Replay { .. } | Command::Demo(_)) | None => cli.serve,
    })
}

fn refusal(args: &[&str]) -> String {
    let failure = configure(serve_options(args).unwrap()).unwrap_err();
    assert_eq!(failure.exit_code, 2);
    failure.text
}

#[test]
fn sizes() {
    assert_eq!(parse_size("1048576"), Ok(1 << 20));
    assert_eq!(parse_size("512MiB"), Ok(512 << 20));
    assert_eq!(parse_size("2G"), Ok(2 << 30));
    for wrong in ["", "0", "-1", "GiB", "1.5GiB", "99999999999GiB"] {
        assert!(parse_size(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn options_become_a_configuration() {
    let args =
        ["--listen", "127.0.0.1:0", "--brokers", "3", "--first-node-id", "7", "-c", "num.partitions=3"];
    for command in [None, Some("serve")] {
        let args: Vec<&str> = command.into_iter().chain(args).collect();
        let config = configure(serve_options(&args).unwrap()).unwrap();
        assert_eq!(config.nodes.iter().map(|node| node.id.get()).collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(config.settings().num_partitions, 3);
    }
}

#[test]
fn what_is_not_built_is_refused() {
    assert_eq!(refusal(&["--data-dir", "/x"]), "--data-dir: not built yet");
}

#[test]
fn wrong_values_are_refused_in_one_line() {
    assert_eq!(refusal(&["-c", "x"]), "--config: \"x\" is not of the form KEY=VALUE");
    let text = "Invalid value 0 for configuration num.partitions: Value must be at least 1";
    assert_eq!(refusal(&["-c", "num.partitions=0"]), text);
    assert!(refusal(&["--config-file", "/no/such/file"]).starts_with("--config-file /no/such/file: "));
    assert!(serve_options(&["--brokers", "x"]).is_err());
    assert!(serve_options(&["--no-such-option"]).is_err());
}
