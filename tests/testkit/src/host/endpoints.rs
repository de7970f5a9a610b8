//! The endpoints of a host.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::Host;

impl Host {
    /// Returns the metrics in Prometheus' text format. Blocks.
    ///
    /// # Panics
    /// Panics if the host does not answer.
    pub fn metrics(&self) -> String {
        self.get("/metrics").expect("metrics")
    }

    /// Returns the metrics in Protobuf, as Prometheus asks for native histograms. Blocks.
    ///
    /// # Panics
    /// Panics if the host does not answer in this format.
    pub fn protobuf_metrics(&self) -> Vec<u8> {
        const ACCEPT: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                              application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";

        let answer = self
            .exchange("/metrics", &format!("Accept: {ACCEPT}\r\n"))
            .expect("an answer");

        let end = answer
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .expect("headers")
            + 4;

        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        assert!(
            head.contains("content-type: application/vnd.google.protobuf;"),
            "{head}"
        );

        answer[end..].to_vec()
    }

    /// Returns the sum of a metric over the lines that have all of these labels, each written like
    /// `plugin="a"`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        metric_sum(&self.metrics(), name, labels)
    }

    /// Sends a GET to the admin address and returns the body. Blocks.
    ///
    /// # Errors
    /// Returns the whole response if its status is not 200, or the error of the connection.
    pub fn get(&self, path: &str) -> Result<String, String> {
        let answer = self.exchange(path, "").map_err(|error| error.to_string())?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            _ => Err(answer),
        }
    }

    /// Sends a GET with these headers to the admin address, and returns the whole response.
    fn exchange(&self, path: &str, headers: &str) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.admin_address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;

        // With HTTP/1.0 the server closes the connection at the end.
        write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n")?;

        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// Returns the sum of a metric in Prometheus' text format, over the lines that have all of these
/// labels.
pub fn metric_sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = text
        .lines()
        .filter(|line| line.split(['{', ' ']).next() == Some(name));

    let labelled = lines.filter(|line| labels.iter().all(|label| line.contains(label)));

    labelled
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_metric_of_exact_name_over_lines_with_all_labels() {
        let text = "# TYPE requests gauge\nrequests{verb=\"WATCH\",resource=\"pods\"} 2\nrequests{verb=\"WATCH\",resource=\"nodes\"} 3\n\
                    requests{verb=\"GET\",resource=\"pods\"} 5\nrequests_total{verb=\"WATCH\"} 7\nrequests 11\n";

        assert_eq!(metric_sum(text, "requests", &["verb=\"WATCH\""]), 5.0);
        assert_eq!(
            metric_sum(text, "requests", &["verb=\"WATCH\"", "resource=\"pods\""]),
            2.0
        );

        assert_eq!(metric_sum(text, "requests", &[]), 21.0);
    }
}
