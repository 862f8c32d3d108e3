"""The artifact store: files that measuring leaves, by path, in a folder or an object store."""

import fsspec


class ArtifactStore:
    """Files below an fsspec URL. What fails raises OSError, or what the kind of store has of it."""

    def __init__(self, url: str) -> None:
        self._files, self._root = fsspec.core.url_to_fs(url)

    def put(self, path: str, content: bytes) -> None:
        """Store a file, in place of one that is there."""
        target = f"{self._root}/{path}"
        self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(target, content)

    def read(self, path: str) -> bytes:
        """A file's content. Raises FileNotFoundError."""
        content: bytes = self._files.cat_file(f"{self._root}/{path}")
        return content

    def remove(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError."""
        self._files.rm_file(f"{self._root}/{path}")

    def paths(self) -> list[str]:
        """All files, sorted."""
        return sorted(
            path.removeprefix(self._root).lstrip("/") for path in self._files.find(self._root)
        )
