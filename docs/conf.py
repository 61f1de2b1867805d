"""Sphinx: make docs, which fails at the first warning."""

project = "sdf"
author = "the authors of sdf"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 2  # links to sections, as on GitHub
html_theme = "furo"
html_title = "sdf"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {name: {"code-font-size": "75%"} for name in ("light_css_variables", "dark_css_variables")}
pygments_dark_style = "github-dark"  # the theme's own underlines names of modules, as if they were links
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # they are in the signatures
napoleon_use_ivar = True
default_role = "code"
exclude_patterns = ["_build"]


def setup(app):
    """Make a link to a file beside docs/ a download: of a Markdown file MyST says that there is no such page."""

    def make_downloads(app, docname, source):
        source[0] = source[0].replace("](../", "](path:../")

    app.connect("source-read", make_downloads)
