"""What mkdocs does besides: the search index as a script, too (assets/from_folder.js)."""

from pathlib import Path


def on_post_build(config, **_):
    folder = Path(config["site_dir"]) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"cenote_found({index});\n", encoding="utf-8")
