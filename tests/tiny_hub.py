"""A stand-in for the Hugging Face hub: as much of its HTTP interface as uploading and reading a model needs.

Repositories are kept in memory. Writing wants the token, and files ending in .safetensors take the way of large files
(batch, then one PUT each, whose bytes must have the digest that was announced).
"""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "a" * 34
PREFIX = "/api/models/"


class Repository:
    """Branches, and commits as {path: bytes}."""

    def __init__(self, private: bool):
        self.private, self.commits, self.branches = private, {}, {}
        self.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"})

    def commit(self, branch: str, added: dict[str, bytes]) -> str:
        files = {**self.commits.get(self.branches.get(branch), {}), **added}
        oid = hashlib.sha1(repr((len(self.commits), sorted(files))).encode()).hexdigest()
        self.commits[oid], self.branches[branch] = files, oid
        return oid


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status=200, content=b"", **headers):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def route(self):
        path, hub = unquote(urlsplit(self.path).path), self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hub.requests.append(f"{self.command} {path}")
        if self.command == "PUT":
            digest = path.removeprefix("/lfs/")
            if hashlib.sha256(body).hexdigest() != digest:
                return self.answer(400)
            hub.large[digest] = body
            return self.answer()
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if self.command == "POST" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "Invalid username or password."})
        if path == "/api/repos/create":
            made = json.loads(body)
            name = f"{made['organization']}/{made['name']}"
            status = 409 if name in hub.repositories else 200
            private = made.get("visibility") == "private" or bool(made.get("private"))
            hub.repositories.setdefault(name, Repository(private))
            return self.answer(status, {"url": f"{hub.address}/{name}"})
        name = "/".join(path.removeprefix(PREFIX).strip("/").split("/")[:2]).removesuffix(".git")
        if name not in hub.repositories:
            return self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        repository, rest = hub.repositories[name], path.split(name, 1)[1]
        return self.of_repository(name, repository, rest.strip("/").split("/"), body)

    def of_repository(self, name: str, repository: Repository, parts: list[str], body: bytes):
        hub, action, revision = self.server, parts[0], parts[1] if len(parts) > 1 else "main"
        if action == "branch":
            known = revision in repository.branches
            repository.branches.setdefault(revision, repository.branches["main"])
            return self.answer(409 if known else 200, {})
        if action == ".git":  # info/lfs/objects/batch
            to = lambda oid: {"upload": {"href": f"{hub.address}/lfs/{oid}"}}  # noqa: E731
            objects = [{**o, "actions": to(o["oid"])} for o in json.loads(body)["objects"]]
            return self.answer(200, {"transfer": "basic", "objects": objects})
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            return self.answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        content = repository.commits[commit]
        if action == "preupload":
            paths = [f["path"] for f in json.loads(body)["files"]]
            mode = {True: "lfs", False: "regular"}
            plain = {"shouldIgnore": False, "oid": None}
            ways = [{"path": p, "uploadMode": mode[p.endswith(".safetensors")], **plain} for p in paths]
            return self.answer(200, {"files": ways})
        if action == "commit":
            added = {}
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    added[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "lfsFile":
                    added[line["value"]["path"]] = hub.large[line["value"]["oid"]]
            hub.uploads.append(sorted(added))
            oid = repository.commit(revision, added)
            return self.answer(200, {"commitUrl": f"{hub.address}/{name}/commit/{oid}", "commitOid": oid})
        if action == "tree":
            return self.answer(200, [{"type": "file", "path": p, **described(p, c)} for p, c in content.items()])
        if action == "resolve":
            path = "/".join(parts[2:])
            if path not in content:
                return self.answer(404, {}, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
            etag = described(path, content[path])["oid"]
            return self.answer(200, content[path], X_Repo_Commit=commit, ETag=f'"{etag}"')
        about = {"id": name, "sha": commit, "private": repository.private, "tags": []}
        return self.answer(200, about | {"siblings": [{"rfilename": path} for path in content]})

    do_GET = do_HEAD = do_POST = do_PUT = route


def described(path: str, content: bytes) -> dict:
    if path.endswith(".safetensors"):
        digest = hashlib.sha256(content).hexdigest()
        lfs = {"oid": digest, "size": len(content), "pointerSize": 130}
        return {"oid": digest, "size": len(content), "lfs": lfs}
    blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    return {"oid": blob, "size": len(content)}


@contextmanager
def tiny_hub():
    """A hub on this machine, with `address`, `repositories`, `uploads` (files of each commit) and `requests`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.repositories, server.large, server.uploads, server.requests = {}, {}, [], []
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
