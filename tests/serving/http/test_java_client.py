"""Java's own HttpClient as a client of the service.

It offers HTTP/2 with every first request, for which uvicorn drops the body; the service says so. As HTTP/1.1 it
works, and through nginx with its default settings (`test_nginx.py` has the bytes).
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from serving_zoo import Running

PROGRAM = """
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Visit {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        String[][] visits = {
            {"/v1/recommendations", "{\\"user\\": \\"ann\\"}"},
            {"/v1/recommendations/batch", "{\\"requests\\": [{\\"user\\": \\"bob\\"}]}"},
            {"/v1/recommendations", "{\\"user\\": \\"eve\\"}"},
        };
        for (String[] visit : visits) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0] + visit[0]))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(visit[1])).build();
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(response.statusCode() + " " + response.version() + " " + response.body());
        }
    }
}
"""


def has_jdk() -> bool:
    """Whether a java is here that can run a source file."""
    java = shutil.which("java")
    if java is None:
        return False
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True)
    return listed.returncode == 0 and "jdk.compiler@" in listed.stdout and "java.net.http@" in listed.stdout


@pytest.mark.skipif(not has_jdk(), reason="no JDK here (a java with the modules jdk.compiler and java.net.http)")
def test_the_client_of_the_jdk_can_post_as_http_1_1(shared: Running, tmp_path: Path) -> None:
    def visit(program: str) -> list[str]:
        (tmp_path / "Visit.java").write_text(program)
        command = ["java", str(tmp_path / "Visit.java"), shared.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert all(line.startswith("400 ") and "HttpClient.Version.HTTP_1_1" in line for line in visit(PROGRAM))
    plain = "HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()"
    lines = visit(PROGRAM.replace("HttpClient.newHttpClient()", plain))
    assert [line.split()[:2] for line in lines] == [["200", "HTTP_1_1"]] * 3
    assert '"user":"ann"' in lines[0] and '"user":"bob"' in lines[1] and '"user":"eve"' in lines[2]
