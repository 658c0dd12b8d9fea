"""Models on the Hugging Face hub: a folder is uploaded under a name, and read again by that name."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from xmr_core.base.errors import BadInput, XmrError
from xmr_core.base.extras import require
from xmr_core.data.features.model_folder import find_pretrained, quiet
from xmr_core.search.model_folder import CARD, CONFIG, read_config


def push_folder(
    folder: Path | str, repo_id: str, token: str | None = None, private: bool = False, revision: str | None = None
) -> str:
    """Upload a folder of `write_model` as one commit: config.json, the files that it lists, and README.md.

    repo_id: 'owner/name', made where it does not exist. token: of the owner, None for the one that `hf auth login` or
    HF_TOKEN left. private: a new one is seen by its owner only. revision: a branch, made where it does not exist; None
    for the main one. Files that a reader of the model does not need (drawings, notes, a licence) are neither uploaded
    nor removed there.
    Returns the name of this very state, 'owner/name@commit', which `xmr.load` takes.
    Raises: BadInput for a folder that is no model, a hub that refuses or cannot be reached, or private=True for a
        repository that exists and is public; DamagedFile for a folder whose files are not those of its config.json.

    >>> push_folder("no-such-folder", "someone/model")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: model not found: no-such-folder/config.json does not exist. Give the right path.
    """
    folder = Path(folder).expanduser()
    names = {CONFIG, *read_config(folder, verify=True)["files"]} | ({CARD} if (folder / CARD).exists() else set())
    hub = _library()
    api = hub.HfApi(token=token)
    with _reached(f"{repo_id!r} was not uploaded", "Log in with `hf auth login`, or give token=…"):
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        if private and not api.model_info(repo_id).private:
            raise BadInput(f"{repo_id} exists on the hub and is public. Make it private there, or give another name.")
        if revision:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        added = [hub.CommitOperationAdd(name, folder / name) for name in sorted(names)]
        commit = api.create_commit(repo_id, added, commit_message="Model of xmr_core", revision=revision)
    return f"{repo_id}@{commit.oid}"


def hub_folder(name: str) -> Path:
    """The cached copy of a model on the hub, of this package or of transformers; what is not cached is downloaded.

    name: 'owner/name', with '@revision' if needed. A cached copy is used as it is, without asking for a newer one.
    Raises: BadInput as find_pretrained does.

    >>> hub_folder("a/name/with/too/many/parts")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: a/name/with/too/many/parts does not exist. Give the folder that holds config.json ...
    """
    hub, (repository, _, revision) = _library(), name.partition("@")

    def downloaded(revision: str | None, patterns: list[str], local: bool) -> Path:
        at = hub.snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=local)
        read_config(Path(at))
        return Path(at)

    with suppress(Exception):  # not cached, not completely, or no model of this package
        return downloaded(revision or None, [CONFIG], local=True)
    try:
        folder = Path(hub.hf_hub_download(repository, CONFIG, revision=revision or None)).parent
        config = read_config(folder, verify=None)
    except Exception:  # of transformers, or not there
        return find_pretrained(name).path
    with _reached(f"model {name!r} was not downloaded", "Try again, or copy its folder here."), quiet():
        # the commit of this config.json, should another one come meanwhile
        return downloaded(folder.name, [CONFIG, CARD, *config["files"]], local=False)


def _library() -> ModuleType:
    require("the hub", "hub", "huggingface_hub")
    import huggingface_hub

    return huggingface_hub


@contextmanager
def _reached(fault: str, remedy: str) -> Iterator[None]:
    """One line for whatever the hub's library raises."""
    try:
        yield
    except XmrError:
        raise
    except Exception as e:
        reason = f"{type(e).__name__}: {' '.join(str(e).split())[:160]}"
        raise BadInput(f"{fault}: the hub cannot be reached or refuses ({reason}). {remedy}") from None
