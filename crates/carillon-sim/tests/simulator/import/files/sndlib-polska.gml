graph [
  node [
    id 0
    label "Gdansk"
    Longitude 18.6
    Latitude 54.2
  ]
  node [
    id 1
    label "Bydgoszcz"
    Longitude 17.9
    Latitude 53.1
  ]
  node [
    id 2
    label "Kolobrzeg"
    Longitude 16.1
    Latitude 54.2
  ]
  node [
    id 3
    label "Katowice"
    Longitude 18.8
    Latitude 50.3
  ]
  node [
    id 4
    label "Krakow"
    Longitude 19.8
    Latitude 50.0
  ]
  node [
    id 5
    label "Bialystok"
    Longitude 23.1
    Latitude 53.1
  ]
  node [
    id 6
    label "Lodz"
    Longitude 19.4
    Latitude 51.7
  ]
  node [
    id 7
    label "Poznan"
    Longitude 16.8
    Latitude 52.4
  ]
  node [
    id 8
    label "Rzeszow"
    Longitude 21.9
    Latitude 50.0
  ]
  node [
    id 9
    label "Szczecin"
    Longitude 14.5
    Latitude 53.4
  ]
  node [
    id 10
    label "Warsaw"
    Longitude 21.0
    Latitude 52.2
  ]
  node [
    id 11
    label "Wroclaw"
    Longitude 16.9
    Latitude 51.1
  ]
  edge [
    source 0
    target 10
  ]
  edge [
    source 0
    target 2
  ]
  edge [
    source 0
    target 5
  ]
  edge [
    source 1
    target 2
  ]
  edge [
    source 1
    target 7
  ]
  edge [
    source 1
    target 10
  ]
  edge [
    source 2
    target 9
  ]
  edge [
    source 3
    target 4
  ]
  edge [
    source 3
    target 6
  ]
  edge [
    source 3
    target 11
  ]
  edge [
    source 4
    target 8
  ]
  edge [
    source 4
    target 10
  ]
  edge [
    source 5
    target 8
  ]
  edge [
    source 5
    target 10
  ]
  edge [
    source 6
    target 10
  ]
  edge [
    source 6
    target 11
  ]
  edge [
    source 7
    target 9
  ]
  edge [
    source 7
    target 11
  ]
]
